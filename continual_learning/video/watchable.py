"""Which studies can be filmed; it imports nothing that films."""

from __future__ import annotations

from pathlib import Path

from continual_learning.schema.errors import StudyError
from continual_learning.studies.experiment import Experiment


def check_watchable(path: Path, experiment: Experiment) -> None:
    """Raise unless the experiment of a folder has a robot to film, and a policy that is read."""
    if (experiment.stream.kind, experiment.agent.kind) == ("robot", "ppo"):
        return
    raise StudyError(
        f"{path} is a study of {experiment.name}, which cannot be filmed: only robots can "
        "(slippery_ant, slippery_humanoid, delayed_ant, or an experiment of yours of the kind "
        f"'control'). Its curves: continual report {path}"
    )
