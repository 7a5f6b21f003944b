"""Class-incremental MNIST: two classes more in every task, one output layer for all.

After all ten classes, the stream starts over with two of them, 40 times in 200 tasks.

This experiment is not in the paper; its methods are those of Permuted MNIST.
"""

from continual_learning.studies.presets import permuted_mnist, smoke

SPEC = permuted_mnist.SPEC.override(
    name="class_incremental_mnist",
    title="Class-incremental MNIST, two classes more per task (ours)",
    change="class_incremental",
    classes_per_task=2,
    redraw_head=False,
    scales={
        "smoke": {"tasks": 2, "examples_per_task": 400, "seeds": 2, **smoke.RESETS},
        "short": {"tasks": 20, "examples_per_task": 6000, "seeds": 3},
    },
)
