from pathlib import Path

import jax
import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(params=["metrics_basic", "metrics_edge"])
def golden(request):
    """The arrays of one reference file, by name."""
    with np.load(GOLDEN / f"{request.param}.npz") as file:
        return dict(file)


@pytest.fixture(params=["float32", "float64"])
def precision(request):
    """Runs the test in either precision; the name of its dtype."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param
