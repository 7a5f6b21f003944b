"""Continual MinAtar: Space Invaders, Asterix, Seaquest, 1.5M steps each, by discrete SAC.

Every method has the values of the paper. Values that the paper omits come from its published
experiment files: the global norm of gradients is clipped to 0.5, replay, optimizers, target critics
and temperature begin anew with every game, and episodes are cut at 1,000 steps. The paper does not
say whether its table is about training or evaluations, so the experiment measures both.
"""

from typing import Any

from continual_learning.agents.sac.config import SACConfig
from continual_learning.envs.catalog.minatar import MinAtarTasks
from continual_learning.networks.catalog import CNNs
from continual_learning.studies.experiment import Experiment, MethodSpec
from continual_learning.studies.presets import smoke

_BASE: dict[str, Any] = {"optimizer": "adam", "learning_rate": 3e-4, "clip": 0.5}
_RARE = {"threshold": 1e-4, "every": 100_000, "max_reset_fraction": 0.02}

METHODS = {
    "adam": MethodSpec(**_BASE),
    "cpr": MethodSpec(
        reset="cpr", options={"max_reset": 0.015, "decay": 0.99, "every": 1000}, **_BASE
    ),
    "cbp": MethodSpec(
        reset="cbp",
        options={"replacement_rate": 1e-6, "decay": 0.99, "maturity": 1000},
        **_BASE,
    ),
    "redo": MethodSpec(reset="redo", options=_RARE, **_BASE),
    "regrama": MethodSpec(reset="regrama", options=_RARE, **_BASE),
    "shrink_perturb": MethodSpec(
        reset="shrink_perturb",
        options={"shrink": 1e-5, "perturb": 1e-4, "every": 1000, "kernels_only": True},
        **_BASE,
    ),
}

SCALES = {
    "smoke": {
        "compilation": "quick",
        "tasks": 2,
        "vector_steps_per_task": 60,
        "steps_per_row": 30,
        "rows_per_chunk": 2,
        "learning_starts": 600,
        "capacity": 1000,
        "eval_every": 60,
        "eval_episodes": 2,
        "probe": 32,
        "seeds": 2,
        **smoke.RESETS,
    },
    "short": {"vector_steps_per_task": 20_000, "capacity": 240_000, "seeds": 3},
}

SPEC = Experiment(
    name="continual_minatar",
    title="Continual MinAtar: SAC on three games, 1.5M steps each, as in the paper",
    tasks=3,
    seeds=5,
    stream=MinAtarTasks(games=("space_invaders", "asterix", "seaquest")),
    agent=SACConfig(
        environments=12,
        vector_steps_per_task=125_000,
        steps_per_row=1000,
        rows_per_chunk=5,
        eval_every=5000,
    ),
    networks=CNNs(channels=(16,), hidden=(128,)),
    methods=METHODS,
    scales=SCALES,
)
