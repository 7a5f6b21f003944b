"""What experiments with SAC are built from, wherever their environments are."""

from __future__ import annotations

import dataclasses
from typing import Any

from continual_learning.agents.common.trainer import Hyper, MakeOptimizer
from continual_learning.agents.sac.config import SACConfig
from continual_learning.studies import methods
from continual_learning.studies.sac_spec import SACSpec


def chunks(experiment: SACSpec) -> int:
    """A chunk is a few rows."""
    rows = experiment.tasks * experiment.vector_steps_per_task // experiment.steps_per_row
    return rows // experiment.rows_per_chunk


def optimizers(experiment: SACSpec, method: str) -> dict[str, MakeOptimizer]:
    """A method for policy and critics, which draw differently."""

    def optimizer(key: int) -> MakeOptimizer:
        def make(units: Any, hyper: Hyper) -> Any:
            chosen = experiment.methods[method]
            return methods.transformation(
                chosen,
                units,
                init=experiment.init,
                key=key,
                hyper=hyper,
                histogram=experiment.histogram,
            )

        return make

    return {"policy": optimizer(0), "critic": optimizer(1)}


def config(experiment: SACSpec, method: str, **others: Any) -> SACConfig:
    """Sizes and numbers: the fields that the experiment has by the same name, and `others`."""
    own = {"steps_per_task", "log_alpha_bounds", "sample_scores", "published_return_every"}
    names = {f.name for f in dataclasses.fields(SACConfig)} - own
    return SACConfig(
        steps_per_task=experiment.vector_steps_per_task,
        sample_scores=methods.needs_sample_scores(experiment.methods[method]),
        **{name: getattr(experiment, name) for name in names},
        **others,
    )
