"""Which studies can be filmed; it imports nothing that films."""

from __future__ import annotations

from pathlib import Path

from continual_learning.schema.errors import StudyError
from continual_learning.studies.control_spec import ControlSpec
from continual_learning.studies.spec import ExperimentSpec


def robots_of(path: Path, experiment: ExperimentSpec) -> ControlSpec:
    """Return the experiment of a folder if there is a robot to film, else raise."""
    if isinstance(experiment, ControlSpec):
        return experiment
    raise StudyError(
        f"{path} is a study of {experiment.name}, which cannot be filmed: only robots can "
        "(slippery_ant, slippery_humanoid, delayed_ant, or an experiment of yours of the kind "
        f"'control'). Its curves: continual report {path}"
    )
