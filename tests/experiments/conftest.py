import os

import pytest

from continual_learning.experiments.storage.store import Store
from tests.experiments import toy_study


@pytest.fixture
def folder(tmp_path):
    """A study without metrics."""
    path = tmp_path / "study"
    Store.create(path, toy_study.STUDY, toy_study.ENVIRONMENT).close()
    return path


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Compiled programs are not left in the user's cache."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before
