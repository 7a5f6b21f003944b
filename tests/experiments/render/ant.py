"""A study of an ant that is small enough to be trained and filmed in tests."""

import contextlib

import jax

SMALL = (
    "--environments 4 --rollout 4 --minibatches 2 --epochs 1 --iterations-per-task 1 "
    "--iterations-per-chunk 1 --tasks 1 --policy-hidden 8 --value-hidden 8 --no-diagnostics "
    "--episode-length 15 --seeds 2 --quiet"
)
STEPS = 40
FRICTIONS = 0.02, 2.0


@contextlib.contextmanager
def quick():
    """Programs that run for milliseconds need not be good; Brax's code promotes ranks."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        with jax.numpy_rank_promotion("allow"):
            yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
