"""A kill between the newest checkpoint and the removal of the oldest leaves three for a while."""

import pytest

from continual_learning.studies.store import checkpoints
from continual_learning.studies.store.store import Store
from tests.studies.toy_study import check_consistent, train


@pytest.mark.parametrize("method", ["cpr", "sac"])
def test_the_oldest_is_removed_at_the_next_start(folder, monkeypatch, method):
    def killed(path):
        raise KeyboardInterrupt

    with Store.open(folder) as store:
        train(store, method, 5)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(checkpoints, "remove_folder", killed)
            train(store, method, 6)

    def there():
        return sorted(each.name for each in (folder / "checkpoints" / method).glob("??????"))

    assert there() == ["000003", "000004", "000005"]
    Store.open(folder).close()
    assert there() == ["000004", "000005"]
    assert check_consistent(folder, method) == 5
