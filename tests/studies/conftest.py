import pytest

from continual_learning.studies.store.store import Store
from tests.studies import toy_study


@pytest.fixture
def folder(tmp_path):
    """A study without metrics."""
    path = tmp_path / "study"
    Store.create(path, toy_study.STUDY, toy_study.ENVIRONMENT).close()
    return path
