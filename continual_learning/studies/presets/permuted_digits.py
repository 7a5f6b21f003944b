"""Permuted digits: Permuted MNIST on scikit-learn's 1,797 digits of 8×8 pixels.

This experiment is not in the paper. It has the same shape and needs no download.
"""

from continual_learning.studies.presets import permuted_mnist, smoke

SPEC = permuted_mnist.SPEC.override(
    name="permuted_digits",
    title="Permuted MNIST's stand-in on scikit-learn's digits (ours)",
    dataset="digits",
    rows_per_task=1,
    scales={
        "smoke": {"tasks": 2, "examples_per_task": 400, "seeds": 2, **smoke.RESETS},
        "short": {"tasks": 50, "seeds": 3},
    },
)
