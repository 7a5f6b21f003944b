"""Two processes that share the lanes of one study: the numbers of one process."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.studies.store.store import Store
from tests.studies.counting import collected

ROOT = Path(__file__).parents[2]
SEEDS = [0, 1, 2]
WORDS = ["run", "permuted_digits", "--scale", "smoke", "--methods", "redo", "--seeds", "3"]
WORDS += ["--hidden", "16", "--examples-per-task", "160", "--no-diagnostics", "--quiet"]
WORDS += ["--set", "redo.every=8", "--collapse", "drop = 0.9; sustained = 20; bin = 20; stop = 3"]
"""A study of two chunks, which resets in both and is watched for collapses that do not come."""
RING = """
import json, sys
from pathlib import Path
from continual_learning.experiments import processes
from tests.studies.counting import collected
from tests.studies.test_processes import SEEDS
folder, coordinator, count, process = sys.argv[1:]
processes.join(coordinator.partition("=")[2], int(count[-1]), int(process[-1]))
values = collected(Path(folder), SEEDS, lambda chunks: chunks == 3)
try:
    collected(Path(folder), SEEDS)
except Exception as error:
    print(json.dumps([processes.first(), values, f"{type(error).__name__}: {error}"]))
"""
STUDY = """
import json, sys
from pathlib import Path
from continual_learning import cli
from continual_learning.experiments import launch, processes, registry
from tests.studies.test_processes import WORDS
folder, *distributed = sys.argv[1:]
words = [*WORDS, "--out", folder, "--time-limit", "0.001s"]
codes = [cli.main([*words, "--distributed", *distributed])]
codes += [launch.resume(Path(folder), quiet=True)]
codes += [cli.main(words)]
try:
    launch.run(registry.get("gymnasium"), ["adam"], [0], Path(folder))
except Exception as error:
    print(json.dumps([processes.first(), codes, str(error)]))
"""


def run_two(program, folder):
    """Runs a program in two processes; what each prints last, as data, and its errors."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", program, str(folder)]
    words += [f"coordinator=localhost:{port}", "processes=2"]
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    both = [subprocess.Popen([*words, f"process={i}"], env=env, **options) for i in (0, 1)]
    try:
        said = [process.communicate(timeout=300) for process in both]
    finally:
        for process in both:
            process.kill()
    assert [process.returncode for process in both] == [0, 0], said
    return [(json.loads(out.splitlines()[-1]), errors) for out, errors in said]


def test_two_processes_stop_and_go_on_with_the_numbers_of_one(tmp_path):
    """Of a ring, of which the first process keeps what is new; both are told of its failures."""
    (first, _), (second, _) = run_two(RING, tmp_path / "two")
    values = collected(tmp_path / "one", SEEDS)
    failure = f"{tmp_path / 'two'} holds a study already"
    assert first[:2] == [True, values] and first[2].startswith(f"StoreError: {failure}")
    assert second[:2] == [False, values]
    assert second[2].startswith(f"OtherProcessError: The first process failed: {failure}")


@pytest.mark.slow
def test_a_study_of_two_processes(tmp_path):
    (first, errors), (second, others) = run_two(STUDY, tmp_path / "two")
    # Stopped, gone on with, and not begun again where there is a study.
    assert first[:2] == [True, [75, 0, 2]] and second[:2] == [False, [75, 0, 2]]
    assert "continual: The first process failed" in others and "The first" not in errors
    assert "gymnasium has its environments on the host" in first[2] == second[2]

    assert cli.main([*WORDS, "--out", str(tmp_path / "one")]) == 0
    one, two = load(tmp_path / "one"), load(tmp_path / "two")
    assert len(two) == 3 * 2 and two.units_reset.gt(0).all() and two.collapse.eq(0).all()
    exact = ["method", "seed", "step", "task", "online_accuracy"]
    pd.testing.assert_frame_equal(two[exact], one[exact], check_exact=True)
    # A device with one lane may add in another order than one with three.
    pd.testing.assert_frame_equal(two, one, rtol=1e-5)
    facts = Store.read(tmp_path / "two").environment
    assert (facts["processes"], facts["devices"]) == (2, 2)
    assert (tmp_path / "two" / "log.txt").read_text().count("resumed") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--distributed", "host=a"], "Unknown value of --distributed 'host'"),
        (["--distributed", "processes=two"], "--distributed processes=two: write processes=2"),
        (["--distributed", "--launcher", "local"], "--distributed is for one program"),
    ],
)
def test_values_that_are_wrong(words, message, tmp_path, capsys):
    assert cli.main([*WORDS, "--out", str(tmp_path / "one"), *words]) == 2
    assert message in capsys.readouterr().err
