"""Strict numerics for all tests: JAX on the CPU, no silent broadcasting, reproducible examples."""

import os

import hypothesis
import jax
import pytest

# Tiny programs, each run a few times: half of the tests' time would go into optimising them. Read
# when the first array is made, and by the processes that tests start.
_QUICK = "--xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = f"{_QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()

jax.config.update("jax_platforms", "cpu")
# A vector that meets a matrix by accident is the commonest silent error.
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation makes the first example slow, hence no deadline.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=200)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def x64():
    """Lets one test compute in float64."""
    with jax.enable_x64(True):
        yield
