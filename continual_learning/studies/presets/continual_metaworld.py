"""Continual MetaWorld: the ten tasks of MT10, 1M steps each, by SAC with Muon.

Every method has the values of the paper. Values that the paper omits come from its published
experiment files: the global norm of gradients is clipped to 0.5, Muon's Adam part has an `eps_root`
of 1e-8, the task's number is appended to observations, each of the ten environments keeps one goal
forever, and replay, optimizers, target critics and temperature begin anew with every task.
Evaluations are ten times as rare as in those files (see docs/metaworld.md).
"""

from typing import Any

from continual_learning.agents.sac.config import SACConfig
from continual_learning.envs.catalog.metaworld import MT10, MetaWorldTasks
from continual_learning.networks.catalog import MLPs
from continual_learning.studies.experiment import Experiment, MethodSpec
from continual_learning.studies.presets import smoke

_MUON: dict[str, Any] = {
    "optimizer": "muon",
    "learning_rate": 1e-4,
    "eps_root": 1e-8,
    "clip": 0.5,
}
_RARE = {"threshold": 1e-4, "every": 100_000, "max_reset_fraction": 0.02}

SPEC = Experiment(
    name="continual_metaworld",
    title="Continual MetaWorld: SAC on the ten tasks of MT10, 1M steps each, as in the paper",
    tasks=10,
    seeds=5,
    stream=MetaWorldTasks(sequence=MT10, one_hot=True, goals="fixed"),
    agent=SACConfig(capacity=500_000, replay_ratio=8, eval_every=10_000),
    networks=MLPs(),
    methods={
        "muon": MethodSpec(**_MUON),
        "adam": MethodSpec(optimizer="adam", learning_rate=3e-4, clip=0.5),
        "cpr": MethodSpec(
            reset="cpr", options={"max_reset": 0.015, "decay": 0.99, "every": 1000}, **_MUON
        ),
        "cbp": MethodSpec(
            reset="cbp",
            options={"replacement_rate": 1e-6, "decay": 0.99, "maturity": 10_000},
            **_MUON,
        ),
        "redo": MethodSpec(reset="redo", options=_RARE, **_MUON),
        "regrama": MethodSpec(reset="regrama", options=_RARE, **_MUON),
        "shrink_perturb": MethodSpec(
            reset="shrink_perturb",
            options={"shrink": 1e-5, "perturb": 1e-4, "every": 1000, "kernels_only": True},
            **_MUON,
        ),
    },
    scales={
        "smoke": {
            "compilation": "quick",
            "workers": 1,
            "tasks": 2,
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
            "tasks": 3,
            "vector_steps_per_task": 10_000,
            "capacity": 100_000,
            "eval_every": 5000,
            "seeds": 2,
        },
    },
)
