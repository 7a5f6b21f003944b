"""Rings beside checkpoints: only new rows are written, and what can be read comes back exactly."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.sac.replay import Replay
from continual_learning.analysis import load
from continual_learning.studies.store import ring
from continual_learning.studies.store.store import Store, StoreError
from tests.studies.store.ring_program import LANES, Program, check_same, flip
from tests.studies.toy_study import check_consistent, names, rows_of, train


@pytest.fixture
def program(folder):
    program = Program(folder)
    yield program
    program.store.close()


# ---- what is written ----


def test_only_new_rows_are_written(program):
    program.add(4, 3)
    program.save()
    program.add(3, 2)
    program.save()
    assert program.segments() == ["000000.rows", "000001.rows"]
    assert program.numbers(0, 0) == [0, 1, 2, 3] and program.numbers(0, 1) == [0, 1, 2]
    assert program.numbers(1, 0) == [4, 5, 6] and program.numbers(1, 1) == [3, 4]
    program.add(0, 7)  # around the end of the ring
    program.save()
    assert program.numbers(2, 0) == [] and program.numbers(2, 1) == list(range(5, 12))
    with np.load(program.folder / "000002" / "lane-0000.npz") as lane:
        assert sorted(lane) == ["replay/added", "replay/cleared", "w"]
    assert program.restore()[0] == 2
    check_same(program.restore()[1], program.state)


def test_bytes_do_not_grow_with_the_capacity(folder):
    program = Program(folder, Replay(capacity=50_000, observation_size=3))
    program.add(20_000, 20_000)
    program.save()
    program.add(10, 10)
    program.save()
    files = [*program.folder.glob("000001*/*")]
    assert len(files) == 6 and sum(f.stat().st_size for f in files) < 10_000
    check_same(program.restore()[1], program.state)


def test_only_blocks_are_copied_from_the_device_by_one_program(folder, monkeypatch):
    monkeypatch.setattr(ring, "BLOCK", 8)
    sizes, get = [], jax.device_get
    monkeypatch.setattr(jax, "device_get", lambda x: sizes.append(jax.tree.leaves(x)) or get(x))
    program = Program(folder, Replay(capacity=101, observation_size=5))
    before = ring._block._cache_size()
    for count in (101, 3, 8, 20, 50):
        program.add(count, count)
        program.save()
    assert max(x.size for leaves in sizes for x in leaves) == 8 * 5
    # Three programs: observations, which are [101, 5]; actions and rewards; ends.
    assert ring._block._cache_size() - before <= 4
    check_same(program.restore()[1], program.state)


def test_segments_go_once_no_checkpoint_needs_a_row_of_them(program):
    """Three rows each; of 30 the newest needs 20 and later, the one before 17 and later."""
    for _ in range(10):
        program.add(3, 3)
        program.save()
    assert program.segments() == [f"00000{chunk}.rows" for chunk in range(5, 10)]
    program.clear(0)
    program.add(1, 1)
    program.save()
    program.clear(1)
    program.save()
    # Lane 0 needs nothing before 30, but lane 1 of the checkpoint before does.
    assert program.segments() == [f"{chunk:06d}.rows" for chunk in range(7, 11)]
    program.save()
    assert program.segments() == ["000010.rows"]
    program.clear(0)
    program.save()
    program.save()
    assert program.segments() == []
    check_same(program.restore()[1], program.state)


def test_more_new_rows_than_there_is_room_for(program):
    program.add(4, 4)
    program.save()
    program.add(25, 9)
    program.save()
    assert program.numbers(1, 0) == list(range(19, 29))
    assert program.numbers(1, 1) == list(range(4, 13))
    check_same(program.restore()[1], program.state)


def test_rows_of_any_type(folder):
    """Numbers of 64 bits, which JAX would shorten, and those that NumPy has no type for."""
    rows = (np.array([[2**60, 1, 2]]), jnp.asarray([[0.5, 1, 2]], "bfloat16"))
    state = {"r": {"rows": rows, "added": np.array([5]), "cleared": np.array([3])}}
    with Store.open(folder) as store:
        store.write_part("sac", 0, rows_of(0))
        store.save("sac", 0, state, ring="r")
        found = store.restore("sac", state)
    assert found is not None
    big, small = found[1]["r"]["rows"]
    assert (big.dtype, big.tolist()) == (np.int64, [[2**60, 1, 0]])
    assert (small.dtype, small.astype(float).tolist()) == (jnp.bfloat16, [[0.5, 1, 0]])


def test_checksums_include_the_rows(program):
    for _ in range(2):
        program.add(3, 3)
        program.save()
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    subprocess.run(check, cwd=program.folder / "000001", check=True)
    flip(program.folder / "000000.rows" / "lane-0001.npz")
    assert subprocess.run(check, cwd=program.folder / "000001", capture_output=True).returncode == 1


# ---- what is read ----


def test_what_is_read_of_a_lane_needs_no_rows(program):
    program.add(4, 6)
    program.save()
    one = jax.tree.map(lambda x: x[0], program.like)
    _, lane = program.store.restore("sac", one, lane=1) or (None, {})
    np.testing.assert_array_equal(lane["replay"].rows.reward[:6], np.arange(1, 7))
    shutil.rmtree(program.folder / "000000.rows")
    found = Store.read(program.folder.parents[1]).restore("sac", {"w": one["w"]}, lane=1)
    assert found is not None and found[1]["w"].tolist() == [0, 0]


def test_a_checkpoint_that_has_the_rows_inside_is_gone_on_with(program):
    program.add(7, 7)
    program.save(ring=None)
    assert program.segments() == []
    check_same(program.restore()[1], program.state)
    program.add(2, 2)
    program.save()
    assert program.numbers(1) == list(range(9))
    check_same(program.restore()[1], program.state)


# ---- damage ----


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize("damage", [flip, truncate, Path.unlink])
def test_damaged_rows_fall_back_to_the_checkpoint_before(folder, damage):
    with Store.open(folder) as store:
        train(store, "sac", 4)
        damage(folder / "checkpoints/sac/000003.rows/lane-0001.npz")
        with pytest.warns(UserWarning, match=r"000003 is damaged: .*lane-0001.npz"):
            train(store, "sac", 4)
    assert check_consistent(folder, "sac") == 3


def test_rows_that_both_checkpoints_need(program):
    for _ in range(3):
        program.add(2, 2)
        program.save()
    flip(program.folder / "000000.rows" / "lane-0000.npz")
    study = program.folder.parents[1]
    before, metrics = names(study), load(study)
    with pytest.raises(StoreError) as error:
        program.restore()
    told = str(error.value).splitlines()
    file = "000000.rows/lane-0000.npz has changed since it was written"
    assert told[:-1] == [
        f"The checkpoint {program.folder / chunk} is damaged: {file}."
        for chunk in ("000002", "000001")
    ]
    assert told[-1].startswith("sac has no other checkpoint, so it cannot go on from here.")
    assert f"its metrics were not touched ({study / 'metrics' / 'sac'})" in told[-1]
    assert "`continual run` into a new folder" in told[-1]
    assert names(study) == before and load(study).equals(metrics)


def test_a_damaged_list_costs_no_rows(program):
    """Rows stay while it is not known who needs them, and a new checkpoint has its own."""
    for _ in range(3):
        program.add(2, 2)
        program.save()
    flip(program.folder / "000002" / "leaves.json")
    program.add(2, 2)
    program.save()
    assert program.segments() == [f"00000{chunk}.rows" for chunk in range(4)]
    assert program.numbers(3) == list(range(8))
    check_same(program.restore()[1], program.state)
    for _ in range(2):
        program.save()
    assert program.segments() == ["000003.rows"]


def test_rows_that_a_kill_left_behind_are_removed_or_replaced(program):
    program.add(2, 2)
    program.save()
    left = program.folder / "000001.rows"
    left.mkdir()
    (left / "lane-0000.npz").write_text("not whole")
    program.add(2, 2)
    program.save()
    assert program.numbers(1) == [2, 3]
    shutil.copytree(left, program.folder / "000002.rows")
    check_same(program.restore()[1], program.state)
    assert program.segments() == ["000000.rows", "000001.rows"]


@pytest.mark.parametrize("which", range(10))
def test_a_disk_that_is_full_while_rows_or_their_checkpoint_are_written(
    program, monkeypatch, which
):
    program.add(4, 4)
    program.save()
    program.add(4, 4)
    program.store.write_part("sac", 1, rows_of(1))
    calls, sync = [], os.fsync

    def fail(descriptor):
        calls.append(descriptor)
        if len(calls) == which + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    state = jax.tree.map(np.copy, program.state)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match="The disk is full"):
            program.store.save("sac", 1, state, ring="replay")
    if program.store.progress() == {"sac": 1}:  # else only its name was not known to be on the disk
        program.store.save("sac", 1, state, ring="replay")
    assert program.numbers(0) + program.numbers(1) == list(range(8))
    check_same(program.restore()[1], state)


def test_what_is_no_ring_is_told(program):
    with pytest.raises(ValueError, match=r"no ring at 'w': it must have w/rows, w/added"):
        program.save(ring="w")
    keys = jax.random.split(jax.random.key(0), (LANES, 4))
    count = np.zeros(LANES, int)
    for rows, error, message in (
        (keys, TypeError, "no typed keys, but 'r/rows' does"),
        (
            {"a": np.zeros((2, 3)), "b": np.zeros((2, 4))},
            ValueError,
            "same capacity.*'r/rows/b': 4",
        ),
    ):
        state = {"r": {"rows": rows, "added": count, "cleared": count}}
        with pytest.raises(error, match=message):
            program.store.save("sac", 0, state, ring="r")
    program.add(3, 3)
    program.save()
    program.state["replay"].added[1] = 2
    with pytest.raises(ValueError, match=r"fewer rows than the checkpoint before.*Call `restore`"):
        program.save()
