"""All seeds as one program: rows, stopping and going on, devices, compilations."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from continual_learning.analysis import load
from continual_learning.studies import launch, registry
from continual_learning.studies.options import RunOptions
from continual_learning.studies.runner import Lanes, run_method
from tests.studies.counting import Memory, collected, counter


def run(seeds, keeper=None, **options):
    keeper = keeper or Memory()
    finished = run_method("m", counter(), Lanes(seeds), keeper, **options)
    return keeper, finished


def test_rows_are_tidy_and_seeds_their_own():
    keeper, finished = run([3, 7])
    assert finished
    first = keeper.parts["m", 1]
    assert first["seed"].tolist() == [3, 3, 7, 7]
    assert first["step"].tolist() == [3, 4, 3, 4]
    assert first["task"].tolist() == [1, 1, 1, 1]
    alone, _ = run([7])
    both = keeper.column("m", "value")[keeper.column("m", "seed") == 7]
    np.testing.assert_array_equal(both, alone.column("m", "value"))
    assert len(set(keeper.column("m", "value"))) == 16


def test_one_program_for_the_whole_run_and_for_what_is_resumed():
    traces = []
    keeper = Memory()
    trainer = counter(chunks=5, traces=traces)
    run_method("m", trainer, Lanes([0, 1]), keeper, stop=lambda: len(keeper.parts) == 2)
    assert len(traces) == 1
    run_method("m", trainer, Lanes([0, 1]), keeper)
    assert len(traces) <= 2 and len(keeper.parts) == 5


@pytest.mark.parametrize("after", [1, 3])
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(after):
    whole, _ = run([0, 1, 2])
    keeper = Memory()
    _, finished = run([0, 1, 2], keeper, stop=lambda: len(keeper.parts) == after)
    assert not finished and keeper.states["m"][0] == after - 1
    _, finished = run([0, 1, 2], keeper)
    assert finished
    for name in ("seed", "step", "value"):
        np.testing.assert_array_equal(keeper.column("m", name), whole.column("m", name))
    assert run([0, 1, 2], keeper)[1]  # nothing left to do


def test_a_ring_goes_on_as_if_nothing_had_happened(tmp_path):
    """It is full and has been around when the first run stops; the next chunk clears it."""
    through = collected(tmp_path / "through", [0, 1, 2])
    assert len(through) == 6 * 2 * 3
    assert collected(tmp_path / "parts", [0, 1, 2], lambda chunks: chunks == 3) == through
    assert len(list((tmp_path / "parts").glob("checkpoints/m/*.rows"))) == 3


def test_a_stop_after_the_last_chunk_is_the_end():
    keeper = Memory()
    assert run([0], keeper, stop=lambda: len(keeper.parts) == 4)[1]


def test_states_are_kept_at_the_end_and_at_intervals():
    saved = []

    class Noting(Memory):
        def save(self, method, chunk, state, lanes, ring):
            saved.append(chunk)
            super().save(method, chunk, state, lanes, ring)

    run([0], Noting(), checkpoint_seconds=1000.0)
    run([0], Noting(), checkpoint_seconds=0.0)
    assert saved == [3, 0, 1, 2, 3]


def test_hyper_parameters_by_lane():
    keeper = Memory()
    lanes = Lanes([0, 0], hyper={"start": np.array([0.0, 10.0], np.float32)})
    run_method("m", counter(), lanes, keeper)
    part = keeper.parts["m", 0]
    assert part["hyper_start"].tolist() == [0, 0, 10, 10]
    np.testing.assert_allclose(part["value"][2:] - part["value"][:2], 10, rtol=1e-5)


def test_progress_is_told():
    told = []
    run([0, 1], report=told.append)
    assert [(p.done, p.chunks, p.steps) for p in told] == [(i, 4, 4) for i in (1, 2, 3, 4)]


DEVICES = """
import json, sys
from pathlib import Path
import jax
from continual_learning.studies import launch
from continual_learning.studies.options import RunOptions
from continual_learning.studies.runner import Lanes, run_method
from tests.studies.counting import Memory, collected, counter
from tests.studies.test_runner import digits
values = {}
for how in ("through", "stopped"):
    keeper, lanes = Memory(), Lanes([0, 1, 2, 3, 4])
    stop = (lambda: len(keeper.parts) == 2) if how == "stopped" else (lambda: False)
    run_method("m", counter(), lanes, keeper, stop=stop)
    run_method("m", counter(), lanes, keeper)
    values[how] = keeper.column("m", "value").tolist()
out = Path(sys.argv[1])
values["ring"] = collected(out / "ring", [0, 1, 2, 3, 4], lambda chunks: chunks == 4)
assert launch.run(*digits(), out / "four", RunOptions(quiet=True)) == 0
print(json.dumps([len(jax.devices()), lanes.padding, values]))
"""


def digits():
    """A study of three seeds that resets in both of its tasks: experiment, methods, seeds."""
    small = registry.get("permuted_digits").at_scale("smoke")
    sizes = {"hidden": (16,), "examples_per_task": 160, "diagnostics": False}
    small = small.override(**sizes, **{"cpr.every": 8})
    return small, ["cpr"], [0, 1, 2]


@pytest.fixture(scope="module")
def of_three(tmp_path_factory):
    """What the study of `digits` says."""
    folder = tmp_path_factory.mktemp("digits") / "study"
    assert launch.run(*digits(), folder, RunOptions(quiet=True)) == 0
    return load(folder)


def test_a_seed_alone_gives_the_numbers_of_one_among_three(of_three, tmp_path):
    small, methods, _ = digits()
    assert launch.run(small, methods, [1], tmp_path / "alone", RunOptions(quiet=True)) == 0
    alone, among = load(tmp_path / "alone"), of_three[of_three.seed == 1].reset_index(drop=True)
    assert len(alone) == 2 and alone.units_reset.gt(0).all()
    _same(alone, among)


def test_four_devices_give_the_numbers_of_one(of_three, tmp_path):
    """A counter, one with a ring and a classifier, in one process; their lanes need padding."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    env = os.environ | {"XLA_FLAGS": flags}
    out = subprocess.run(
        [sys.executable, "-c", DEVICES, str(tmp_path)],
        env=env | {"JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert out.returncode == 0, out.stderr
    devices, padding, values = json.loads(out.stdout)
    assert (devices, padding) == (4, 3)
    expected = run([0, 1, 2, 3, 4])[0].column("m", "value")
    for how in ("through", "stopped"):
        np.testing.assert_array_equal(expected, values[how])
    assert values["ring"] == collected(tmp_path / "through", [0, 1, 2, 3, 4])

    four = load(tmp_path / "four")
    assert len(four) == 3 * 2 and four.units_reset.gt(0).all()
    _same(four, of_three)


def _same(one, other):
    """Programs of different numbers of lanes may add in another order."""
    exact = ["method", "seed", "step", "task", "online_accuracy"]
    pd.testing.assert_frame_equal(one[exact], other[exact], check_exact=True)
    pd.testing.assert_frame_equal(one, other, rtol=1e-5)
