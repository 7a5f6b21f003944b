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
from continual_learning.experiments.storage.store import Store
from tests.experiments.counting import collected

ROOT = Path(__file__).parents[2]
SEEDS = [0, 1, 2]
WORDS = ["run", "permuted_digits", "--scale", "smoke", "--methods", "redo", "--seeds", "3"]
WORDS += ["--hidden", "16", "--examples-per-task", "160", "--no-diagnostics", "--quiet"]
WORDS += ["--set", "redo.every=8", "--collapse", "drop = 0.9; sustained = 20; bin = 20; stop = 3"]
"""A study of two chunks, which resets in both and is watched for collapses that do not come."""
TWO = """
import json, sys
from pathlib import Path
from continual_learning import cli
from continual_learning.experiments import launch, processes, registry
from tests.experiments.counting import collected
from tests.experiments.test_processes import SEEDS, WORDS
folder, limit, *distributed = Path(sys.argv[1]), *sys.argv[2:]
words = [*WORDS, "--out", str(folder / "two"), "--time-limit", limit]
codes = [cli.main([*words, "--distributed", *distributed])]
codes += [launch.resume(folder / "two", quiet=True)]
codes += [cli.main(words)]
ring = collected(folder / "ring", SEEDS, lambda chunks: chunks == 3)
print(json.dumps([processes.first(), codes, ring]))
try:
    launch.run(registry.get("gymnasium"), ["adam"], [0], folder / "host")
except Exception as error:
    print(error)
"""


def run_two(folder, limit):
    """Runs the program in two processes; what each prints, and its errors."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", TWO, str(folder), limit]
    words += [f"coordinator=localhost:{port}", "processes=2"]
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    both = [subprocess.Popen([*words, f"process={i}"], env=env, **options) for i in (0, 1)]
    try:
        return [process.communicate(timeout=300) for process in both]
    finally:
        for process in both:
            process.kill()


@pytest.mark.parametrize(
    ("limit", "code"),
    [("1h", 0), pytest.param("0.001s", 75, marks=pytest.mark.slow)],  # which compiles twice
)
def test_two_processes_give_the_numbers_of_one(tmp_path, limit, code):
    said = run_two(tmp_path, limit)
    for (out, errors), is_first in zip(said, (True, False), strict=True):
        assert len(out.splitlines()) >= 2, errors
        first, codes, ring = json.loads(out.splitlines()[-2])
        # Run, gone on with, and not begun again where there is a study, by either of them.
        assert (first, codes) == (is_first, [code, 0, 2])
        assert ring == collected(tmp_path / f"ring{first}", SEEDS)
        assert "holds a study already" in errors
        assert ("The first process failed" in errors) != is_first
        assert "gymnasium has its environments on the host" in out

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
