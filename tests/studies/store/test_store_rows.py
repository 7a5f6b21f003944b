"""A checkpoint is of use only with the rows before it: nothing is trained where some are lost."""

import warnings

import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.studies.store.store import Store, StoreError
from tests.studies.toy_study import check_consistent, names, state_after, table_of, train


def remove(path):
    path.unlink()


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


DAMAGE = pytest.mark.parametrize("damage", [remove, truncate, flip, empty])


def part(folder, chunk):
    return folder / "metrics" / "cpr" / f"part-{chunk:06d}.parquet"


@DAMAGE
def test_rows_that_both_checkpoints_need_are_asked_for_before_anything_runs(folder, damage):
    with Store.open(folder) as store:
        train(store, "cpr", 5)
    kept = part(folder, 1).read_bytes()
    damage(part(folder, 1))
    before = names(folder)
    with Store.open(folder) as store:
        with pytest.raises(StoreError) as error:
            store.restore("cpr", state_after(0))
        message = str(error.value)
        assert message.count(str(part(folder, 1))) == 2  # before each of the two checkpoints
        assert "is missing" in message if damage is remove else "cannot be read" in message
        assert (
            "Nothing was removed" in message and "files back and resume, or begin anew" in message
        )
    assert names(folder) == before
    assert Store.read(folder).progress() == {"cpr": 5 if damage is flip else 1}
    part(folder, 1).write_bytes(kept)
    assert check_consistent(folder) == 4


@DAMAGE
def test_an_older_checkpoint_serves_where_the_newest_rows_are_lost(folder, damage):
    with Store.open(folder) as store:
        train(store, "cpr", 5)
    damage(part(folder, 4))
    with Store.open(folder) as store:
        with pytest.warns(
            UserWarning, match=r"rows before .*000004 are not complete: .*falls back"
        ):
            restored = store.restore("cpr", state_after(0))
        assert restored is not None and restored[0] == 3
        train(store, "cpr", 6)
    assert "are not complete" in (folder / "log.txt").read_text()
    assert check_consistent(folder) == 5
    assert load(folder).equals(table_of({"cpr": 6}))


def test_who_only_reads_the_state_needs_no_rows(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 3)
    remove(part(folder, 0))
    restored = Store.read(folder).restore("cpr", state_after(0))
    assert restored is not None and restored[0] == 2


SMALL = ["--tasks", "3", "--examples-per-task", "64", "--rows-per-task", "1", "--hidden", "8"]


@pytest.mark.parametrize(
    ("damage", "word"), [(remove, "missing"), (truncate, "cut off"), (empty, "cut off")]
)
def test_a_study_without_some_rows_is_not_finished(tmp_path, capsys, damage, word):
    out = tmp_path / "study"
    start = ["run", "permuted_digits", "--methods", "cpr", "--seeds", "1", "--quiet"]
    assert cli.main([*start, *SMALL, "--out", str(out)]) == 0
    whole = load(out)
    assert cli.main(["status", str(out)]) == 0
    assert "3 of 3 chunks  finished" in capsys.readouterr().out
    last = part(out, 2)
    lost = last.read_bytes()
    damage(last)
    assert cli.main(["status", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"2 of 3 chunks  to resume: part-000002.parquet is {word}" in said
    assert cli.main(["resume", str(out), "--quiet"]) == 2  # its only state came after these rows
    assert str(last) in capsys.readouterr().err
    last.write_bytes(lost)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cli.main(["resume", str(out), "--quiet"]) == 0
    assert load(out).equals(whole)
