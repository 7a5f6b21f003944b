"""All seeds as one program: rows, stopping and going on, devices, compilations."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from continual_learning.experiments.runner import Lanes, run_method
from tests.experiments.counting import Memory, counter


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


def test_a_stop_after_the_last_chunk_is_the_end():
    keeper = Memory()
    assert run([0], keeper, stop=lambda: len(keeper.parts) == 4)[1]


def test_states_are_kept_at_the_end_and_at_intervals():
    saved = []

    class Noting(Memory):
        def save(self, method, chunk, state):
            saved.append(chunk)
            super().save(method, chunk, state)

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
import jax
from continual_learning.experiments.runner import Lanes, run_method
from tests.experiments.counting import Memory, counter
keeper, lanes = Memory(), Lanes([0, 1, 2, 3, 4])
stop = (lambda: len(keeper.parts) == 2) if sys.argv[1] == "stop" else (lambda: False)
run_method("m", counter(), lanes, keeper, stop=stop)
run_method("m", counter(), lanes, keeper)
print(json.dumps([len(jax.devices()), lanes.padding, keeper.column("m", "value").tolist()]))
"""


@pytest.mark.parametrize("how", ["through", "stop"])
def test_four_devices_give_the_numbers_of_one(how):
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    out = subprocess.run(
        [sys.executable, "-c", DEVICES, how],
        env=env | {"JAX_PLATFORMS": "cpu"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    devices, padding, values = json.loads(out.stdout)
    assert (devices, padding) == (4, 3)
    np.testing.assert_array_equal(run([0, 1, 2, 3, 4])[0].column("m", "value"), values)
