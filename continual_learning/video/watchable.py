"""The check whether a study can be filmed; it imports nothing that films."""

from __future__ import annotations

from pathlib import Path

from continual_learning.schema.errors import StudyError
from continual_learning.studies.experiment import Experiment


def check_watchable(path: Path, experiment: Experiment) -> None:
    """Raise a StudyError unless the experiment has a robot to film and a policy to read."""
    if experiment.stream.filmed and experiment.agent.kind == "ppo":
        return
    raise StudyError(
        f"{path} is a study of {experiment.name}, which cannot be filmed: only robots can that PPO "
        "controls (slippery_ant, slippery_humanoid, delayed_ant, or a stream of yours that says "
        f"`filmed = True`). Its curves: continual report {path}"
    )
