"""Random labels: memorize new random labels of digits in every task.

This stream is not in the paper. On it, Adam loses plasticity within minutes on a CPU. Tasks are
equally hard and allow no generalization, so accuracy is measured on the examples of the task.

The values of the methods are the best of a small search with 60 tasks and 3 seeds (0 to 2, or 10 to
12) per value:
CPR's ρ 0.01, 0.03 and 0.1 (every 100; with `reset_bias` as well for the last two), CBP's rate 1e-4
and 1e-3, ReDo's τ 0.25 (every 1000) and 0.1 (every 100), ReGraMa's τ 0.25 (every 1000), 0.1 and
0.25 (every 100), Shrink & Perturb's (shrink, perturb) (1e-4, 1e-4), (1e-4, 1e-3) and (1e-3, 1e-3).
The accuracy that they cost at first is part of the result.
"""

from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.envs.catalog.dataset import DatasetTasks
from continual_learning.networks.catalog import MLPs
from continual_learning.studies.experiment import Experiment, MethodSpec
from continual_learning.studies.presets import smoke

SPEC = Experiment(
    name="random_labels",
    title="Memorize random labels of digits, new ones in every task (ours)",
    tasks=60,
    seeds=5,
    stream=DatasetTasks(dataset="digits", change="random_labels", examples_per_task=200),
    agent=ClassifierConfig(epochs=56, batch_size=32, redraw_head=False, rows_per_task=1),
    networks=MLPs(hidden=(100, 100, 100), activation="relu", init="he_uniform"),
    methods={
        "adam": MethodSpec(),
        "cpr": MethodSpec(reset="cpr", options={"max_reset": 0.1, "every": 100}),
        "cbp": MethodSpec(reset="cbp", options={"replacement_rate": 1e-3, "maturity": 100}),
        "redo": MethodSpec(reset="redo", options={"threshold": 0.1, "every": 100}),
        "regrama": MethodSpec(reset="regrama", options={"threshold": 0.1, "every": 100}),
        "shrink_perturb": MethodSpec(
            reset="shrink_perturb", options={"shrink": 1e-4, "perturb": 1e-3, "every": 1}
        ),
    },
    scales={
        "smoke": {"tasks": 2, "epochs": 10, "seeds": 2, **smoke.RESETS},
        "short": {"tasks": 40, "seeds": 3},
    },
)
