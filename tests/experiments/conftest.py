import pytest

from continual_learning.experiments.store import Store
from tests.experiments import toy_study


@pytest.fixture
def folder(tmp_path):
    """A study without metrics."""
    path = tmp_path / "study"
    Store.create(path, toy_study.STUDY, toy_study.ENVIRONMENT).close()
    return path
