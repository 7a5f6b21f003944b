"""An experiment in one file, as a user writes it: few and short tasks of digits."""

from continual_learning.studies import registry
from continual_learning.studies.spec import MethodSpec, SupervisedSpec

registry.register(
    SupervisedSpec(
        name="few_digits",
        title="Three permutations of 256 digits",
        dataset="digits",
        tasks=3,
        seeds=2,
        hidden=(8,),
        examples_per_task=256,
        rows_per_task=8,
        diagnostics=False,
        methods={"adam": MethodSpec(learning_rate=1e-3)},
    )
)
