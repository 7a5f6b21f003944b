"""Names and files that lead elsewhere: nothing is written or read there, and nothing waits."""

import os
import tempfile

import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.jobs import states, tree
from continual_learning.studies import bench
from continual_learning.studies.store.files import write_file
from continual_learning.studies.store.lock import Lock
from continual_learning.studies.store.store import Store, StoreError
from continual_learning.sweeps.grid import Grid
from continual_learning.sweeps.sampling import Suggestions
from tests.studies.toy_study import ENVIRONMENT, STUDY, state_after, table_of, train

NAMES = ["run:1", "s3://bucket/run", "file:/etc/run", "hdfs:run", "a b'c$d", "-x", "naïve-你好"]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_may_be_called_anything(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with Store.create(name, STUDY, ENVIRONMENT) as store:
        train(store, "cpr", 3)
    with Store.open(name) as store:
        train(store, "cpr", 4)
    assert load(name).equals(table_of({"cpr": 4}))


def test_a_name_that_is_not_utf_8_is_refused(tmp_path, capsys):
    name = os.fsdecode(b"run-\xff")
    for words in (["run", "permuted_digits", "--out", name], ["status", name], ["report", name]):
        assert cli.main(words) == 2
        assert (
            capsys.readouterr().err == "continual: 'run-\\udcff' is not UTF-8: use another name.\n"
        )


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"


def test_a_draft_that_is_a_link_is_not_followed(tmp_path, victim):
    file = tmp_path / "study.toml"
    (tmp_path / ".study.toml.tmp").symlink_to(victim)
    write_file(file, b"new")
    assert file.read_bytes() == b"new" and not file.is_symlink()


def test_a_draft_of_a_folder_that_is_a_link_is_not_followed(folder, victim):
    inside = victim.parent / "elsewhere"
    inside.mkdir()
    (inside / "kept").write_text("precious")
    (folder / "checkpoints" / "cpr").mkdir(parents=True)
    (folder / "checkpoints" / "cpr" / ".000000.tmp").symlink_to(inside)
    with Store.open(folder) as store:
        train(store, "cpr", 1)
    assert [each.name for each in inside.iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["lock", "log.txt"])
def test_a_lock_or_a_log_that_is_a_link_is_refused(folder, victim, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)
    with (
        pytest.raises(StoreError, match=rf"{name}: .*It is a symbolic link, which is not followed"),
        Store.open(folder) as store,
    ):
        store.log("hello")


@pytest.mark.parametrize("name", ["metrics", "metrics/cpr", "checkpoints", "checkpoints/cpr"])
def test_a_folder_of_a_study_that_is_a_link_is_refused(folder, victim, name):
    """Old checkpoints, and parts without one, would be removed where it leads."""
    with Store.open(folder) as store:
        train(store, "cpr", 1)
    elsewhere = victim.parent / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(StoreError, match=rf"Cannot use .*{name}: .*It is a symbolic link"):
        Store.open(folder)
    assert load(folder).equals(table_of({"cpr": 1}))
    (folder / name).unlink()
    elsewhere.rename(folder / name)
    Store.open(folder).close()


def test_what_optuna_writes_is_not_followed(tmp_path, victim):
    pytest.importorskip("optuna")
    (tmp_path / "optuna.log").symlink_to(victim)
    with pytest.raises(StoreError, match="symbolic link"):
        Suggestions(tmp_path, Grid({"a": (1, 2)}))


def test_the_lock_of_measurements_is_not_followed(tmp_path, monkeypatch, victim):
    """Its name in a folder that everybody may write to is known to everybody."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"continual_bench_{os.getuid()}.lock").symlink_to(victim)
    with pytest.raises(StoreError, match="symbolic link"), bench._alone():
        pass


def test_locks_and_logs_of_jobs_are_not_followed(tmp_path, victim):
    with pytest.raises(StoreError, match="symbolic link"):
        (tmp_path / "a.lock").symlink_to(victim)
        Lock(tmp_path / "a.lock")
    with pytest.raises(OSError, match="symbolic links"):
        states.is_claimed(tmp_path / "a.lock")
    (tmp_path / "log.txt").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        tree.note(tmp_path, "hello")


@pytest.mark.parametrize(
    "name",
    [
        "environment.json",
        "metrics/cpr/part-000001.parquet",
        "checkpoints/cpr/000002/leaves.json",
        "checkpoints/cpr/000002/SHA256SUMS",
        "checkpoints/cpr/000002/lane-0001.npz",
    ],
)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder, name):
    with Store.open(folder) as store:
        train(store, "cpr", 3)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    if name.startswith("checkpoints"):
        with pytest.warns(UserWarning, match="is damaged: .*it is not a file"):
            restored = Store.read(folder).restore("cpr", state_after(0))
        assert restored is not None and restored[0] == 1
    else:
        with pytest.raises(StoreError, match="it is not a file"):
            load(folder)
