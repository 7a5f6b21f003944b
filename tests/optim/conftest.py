"""Small networks, and the golden arrays in both precisions."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
TOLERANCE = {
    "float64": {"rtol": 1e-9, "atol": 1e-11},
    "float32": {"rtol": 5e-5, "atol": 1e-5},
}


@pytest.fixture(params=list(TOLERANCE))
def precision(request) -> Iterator[str]:
    with jax.enable_x64(request.param == "float64"):
        yield request.param


@pytest.fixture
def close(precision):
    """An assertion with the tolerances that golden's README gives."""

    def check(actual, expected, what=""):
        np.testing.assert_allclose(actual, expected, **TOLERANCE[precision], err_msg=what)

    return check


@pytest.fixture
def golden(precision):
    """Loads a golden file; numbers come in the precision under test."""

    def load(name: str) -> dict[str, np.ndarray]:
        with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
            arrays = dict(file)
        return {
            k: v.astype(precision) if v.dtype.kind == "f" and v.ndim else v
            for k, v in arrays.items()
        }

    return load


@pytest.fixture
def mlp():
    """Parameters of a dense network with biases, {"layer_0": {"kernel", "bias"}, …}."""

    def make(sizes=(5, 6, 7, 3), seed=0, dtype=jnp.float32):
        rng = np.random.default_rng(seed)
        return {
            f"layer_{i}": {
                "kernel": jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), dtype),
                "bias": jnp.asarray(rng.normal(size=(b,)), dtype),
            }
            for i, (a, b) in enumerate(itertools.pairwise(sizes))
        }

    return make


@pytest.fixture
def forward():
    """(params, x) -> (output, {layer: features}) of such a network, with ReLU."""

    def apply(params, x):
        features = {}
        for i in range(len(params)):
            layer = params[f"layer_{i}"]
            x = x @ layer["kernel"] + layer["bias"][None]
            if i < len(params) - 1:
                x = jax.nn.relu(x)
                features[f"layer_{i}/kernel"] = x
        return x, features

    return apply


@pytest.fixture
def layered():
    """Golden's `kernel_l`, `bias_l` as a parameter tree {"layer_l": {"kernel", "bias"}}."""

    def tree(arrays, kernel="kernel_before", bias="bias_before", at=None):
        count = int(arrays["n_hidden"]) + 1
        pick = (lambda a: a) if at is None else (lambda a: a[at])
        return {
            f"layer_{i}": {
                "kernel": jnp.asarray(pick(arrays[f"{kernel}_{i}"])),
                "bias": jnp.asarray(pick(arrays[f"{bias}_{i}"])),
            }
            for i in range(count)
        }

    return tree
