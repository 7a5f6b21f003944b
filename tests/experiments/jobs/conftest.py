import pytest

from tests.experiments.jobs.small import run_whole


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Folders of the same studies without jobs."""
    return run_whole(tmp_path_factory.mktemp("whole"))
