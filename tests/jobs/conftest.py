from pathlib import Path

import pytest

from tests.jobs.small import run_whole


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Folders of the same studies without jobs."""
    return run_whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def at_root(monkeypatch):
    """Where processes find this package, and on the CPU."""
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
