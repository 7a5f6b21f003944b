"""MetaWorld's MT1: one task, 2M steps, by SAC with Adam; `--task` names the task.

Every method has the values of the paper. Observations show the goal, as MT1's do; the published
code hid it (`--goal hidden`). Values that the paper omits are as in `continual_metaworld`.
"""

from typing import Any

from continual_learning.agents.sac.config import SACConfig
from continual_learning.envs.catalog.metaworld import MetaWorldTasks
from continual_learning.networks.catalog import MLPs
from continual_learning.studies.experiment import Experiment, MethodSpec
from continual_learning.studies.presets import smoke

_ADAM: dict[str, Any] = {"optimizer": "adam", "learning_rate": 3e-4, "clip": 0.5}
_RARE = {"threshold": 1e-4, "every": 100_000, "max_reset_fraction": 0.02}

SPEC = Experiment(
    name="mt1",
    title="MetaWorld MT1: SAC on one task, 2M steps, as in the paper",
    tasks=1,
    seeds=10,
    stream=MetaWorldTasks(sequence=("reach",), goals="fixed"),
    agent=SACConfig(
        vector_steps_per_task=200_000, capacity=1_000_000, replay_ratio=4, eval_every=10_000
    ),
    networks=MLPs(),
    methods={
        "adam": MethodSpec(**_ADAM),
        "cpr": MethodSpec(
            reset="cpr", options={"max_reset": 0.01, "decay": 0.99, "every": 1000}, **_ADAM
        ),
        "cbp": MethodSpec(
            reset="cbp",
            options={"replacement_rate": 1e-5, "decay": 0.999, "maturity": 1000},
            **_ADAM,
        ),
        "redo": MethodSpec(reset="redo", options=_RARE, **_ADAM),
        "regrama": MethodSpec(reset="regrama", options=_RARE, **_ADAM),
        "shrink_perturb": MethodSpec(
            reset="shrink_perturb",
            options={"shrink": 1e-4, "perturb": 1e-3, "every": 1000, "kernels_only": True},
            **_ADAM,
        ),
    },
    scales={
        "smoke": {
            "compilation": "quick",
            "workers": 1,
            "vector_steps_per_task": 500,
            "rows_per_chunk": 1,
            "environments": 4,
            "learning_starts": 1980,
            "capacity": 2000,
            "eval_every": 500,
            "eval_episodes": 2,
            "seeds": 1,
            **smoke.RESETS,
        },
        "short": {
            "vector_steps_per_task": 20_000,
            "rows_per_chunk": 2,
            "capacity": 200_000,
            "eval_every": 1000,
            "seeds": 1,
        },
    },
)
