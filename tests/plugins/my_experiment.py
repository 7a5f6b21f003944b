"""An experiment in one file, as a user writes it: few and short tasks of digits."""

from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.envs.catalog.dataset import DatasetTasks
from continual_learning.networks.catalog import MLPs
from continual_learning.studies import registry
from continual_learning.studies.experiment import Experiment, MethodSpec

registry.register(
    Experiment(
        name="few_digits",
        title="Three permutations of 256 digits",
        tasks=3,
        seeds=2,
        stream=DatasetTasks(dataset="digits", examples_per_task=256),
        agent=ClassifierConfig(rows_per_task=8, diagnostics=False),
        networks=MLPs(hidden=(8,)),
        methods={"adam": MethodSpec(learning_rate=1e-3)},
    )
)
