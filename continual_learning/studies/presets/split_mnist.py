"""Split MNIST: two random classes of MNIST in every task, whose examples are seen once.

This experiment is not in the paper; its methods are those of Permuted MNIST.
"""

from continual_learning.studies.presets import permuted_mnist, smoke

SPEC = permuted_mnist.SPEC.override(
    name="split_mnist",
    title="Split MNIST, two classes per task (ours)",
    change="split",
    classes_per_task=2,
    examples_per_task=12_000,  # about as many as two classes have
    scales={
        "smoke": {"tasks": 2, "examples_per_task": 400, "seeds": 2, **smoke.RESETS},
        "short": {"tasks": 20, "examples_per_task": 6000, "seeds": 3},
    },
)
