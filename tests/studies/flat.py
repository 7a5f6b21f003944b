"""An experiment as tests like to read it: all fields side by side."""

from types import SimpleNamespace
from typing import Any

from continual_learning.studies.experiment import Experiment


def flat(experiment: Experiment) -> Any:
    """Return its fields, those of its parts, and what it comes to, as attributes."""
    fields = {name: experiment.value(name) for name in experiment.fields()}
    more = ("steps", "steps_per_task", "task_names", "stream", "agent", "networks")
    return SimpleNamespace(**fields, **{name: getattr(experiment, name) for name in more})
