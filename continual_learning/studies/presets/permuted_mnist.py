"""Permuted MNIST: a new permutation of the pixels in every task.

Every method has the values of the paper, which reports Adam and the five reset methods. AdamW and
Muon are ours: further base optimizers without resets, at the same learning rate.
"""

from typing import Any

from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.envs.catalog.dataset import DatasetTasks
from continual_learning.networks.catalog import MLPs
from continual_learning.studies.experiment import Experiment, MethodSpec
from continual_learning.studies.presets import smoke

_BASE: dict[str, Any] = {"learning_rate": 1e-3, "clip": 0.5}

METHODS = {
    "adam": MethodSpec(optimizer="adam", **_BASE),
    "adamw": MethodSpec(optimizer="adamw", **_BASE),
    "muon": MethodSpec(optimizer="muon", **_BASE),
    "cpr": MethodSpec(reset="cpr", options={"max_reset": 0.01, "every": 100}, **_BASE),
    "cbp": MethodSpec(reset="cbp", options={"replacement_rate": 1e-5, "maturity": 100}, **_BASE),
    "redo": MethodSpec(reset="redo", options={"threshold": 0.5, "every": 1000}, **_BASE),
    "regrama": MethodSpec(reset="regrama", options={"threshold": 0.25, "every": 1000}, **_BASE),
    "shrink_perturb": MethodSpec(
        reset="shrink_perturb",
        options={"shrink": 1e-5, "perturb": 1e-5, "every": 1, "kernels_only": True},
        **_BASE,
    ),
}

SPEC = Experiment(
    name="permuted_mnist",
    title="Permuted MNIST, as in the paper",
    tasks=200,
    seeds=5,
    stream=DatasetTasks(dataset="mnist", change="permuted"),
    agent=ClassifierConfig(epochs=1, batch_size=8, redraw_head=True),
    networks=MLPs(hidden=(128, 128), activation="relu", init="he_uniform"),
    methods=METHODS,
    scales={
        "smoke": {"tasks": 2, "examples_per_task": 400, "seeds": 2, **smoke.RESETS},
        "short": {"tasks": 20, "examples_per_task": 6000, "seeds": 3},
    },
)
