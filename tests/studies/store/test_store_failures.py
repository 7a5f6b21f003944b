"""A disk that is full, a folder that is read-only or taken: a clear error, and nothing is lost."""

import errno
import os
import resource
import subprocess
import sys

import pytest

from continual_learning.analysis import load
from continual_learning.studies.store.store import Store, StoreError
from tests.studies.toy_study import (
    STUDY,
    check_consistent,
    names,
    rows_of,
    state_after,
    table_of,
    train,
)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize(
    ("what", "call"),
    [("part", "fsync"), ("part", "replace"), ("checkpoint", "fsync"), ("checkpoint", "rename")],
)
def test_a_disk_that_fails(folder, monkeypatch, what, call, code):
    def fail(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    with Store.open(folder) as store:
        train(store, "cpr", 3)
        if what == "checkpoint":
            store.write_part("cpr", 3, rows_of(3))
        before = names(folder)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(StoreError) as error:
                if what == "part":
                    store.write_part("cpr", 3, rows_of(3))
                else:
                    store.save("cpr", 3, state_after(3))
        message = str(error.value)
        assert os.strerror(code) in message
        assert str(folder) in message
        assert "What was saved before is intact." in message
        assert ("free some space, then resume" in message) == (code in (errno.ENOSPC, errno.EDQUOT))
        assert names(folder) == before
    assert check_consistent(folder) == 2
    with Store.open(folder) as store:
        train(store, "cpr", 4)
    assert check_consistent(folder) == 3


def test_a_disk_that_is_full_in_the_middle_of_a_file(folder):
    """A limit on the size of files makes real writes fail, with half of the data written."""
    with Store.open(folder) as store:
        train(store, "cpr", 3)
        store.write_part("cpr", 3, rows_of(3))
        before = names(folder)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        for size in (100, 3000, 9000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            try:
                with pytest.raises(StoreError, match="File too large"):
                    store.save("cpr", 3, state_after(3))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert names(folder) == before
    assert check_consistent(folder) == 2


def test_a_full_disk_at_the_creation(tmp_path, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match="disk is full"):
            Store.create(tmp_path, STUDY, {})
    Store.create(tmp_path, STUDY, {}).close()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 2)
    folders = [folder, *(f for f in folder.rglob("*"))]
    for path in folders:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with pytest.raises(StoreError, match=r"Cannot lock .*Permission denied. Check the perm"):
            Store.open(folder)
        with pytest.raises(StoreError, match=r"Cannot make the folder .*Permission denied"):
            Store.create(folder / "new", STUDY, {})
        assert load(folder).equals(table_of({"cpr": 2}))
        restored = Store.read(folder).restore("cpr", state_after(0))
        assert restored is not None and restored[0] == 1
    finally:
        for path in folders:
            path.chmod(0o755)


def test_two_stores_on_one_folder(folder):
    with Store.open(folder):
        with pytest.raises(StoreError, match=f"another process \\(process {os.getpid()} on"):
            Store.open(folder)
        Store.read(folder)
    Store.open(folder).close()


def test_two_processes_on_one_folder(folder):
    code = (
        "import sys; from continual_learning.studies.store.store import Store, StoreError\n"
        f"try: Store.open({str(folder)!r})\n"
        "except StoreError as error: print(error); sys.exit(3)\n"
    )

    def second():
        run = [sys.executable, "-c", code]
        return subprocess.run(run, capture_output=True, text=True, timeout=60)

    with Store.open(folder) as store:
        train(store, "cpr", 1)
        refused = second()
        train(store, "cpr", 2)
    assert refused.returncode == 3, refused.stderr
    assert "is being written by another process" in refused.stdout
    assert "Wait until it has ended" in refused.stdout
    assert second().returncode == 0
    assert check_consistent(folder) == 1
