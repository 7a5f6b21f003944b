"""The command as a program of its own: how it starts, and how it ends."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from continual_learning import cli

ROOT = Path(__file__).parents[2]


def test_the_entry_point_and_its_start():
    """`continual list` as installed, and without JAX."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, function = project["scripts"]["continual"].split(":")
    code = (
        f"import sys; from {module} import {function}; code = {function}();"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules; sys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["list"], ["show", "permuted_mnist", "--scale", "smoke", "--tasks", "3"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert "permuted_mnist" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list"], ["run", "permuted_mnist", "--help"]])
def test_a_reader_that_goes_away_is_no_error(words, unbuffered):
    """`continual list | head -1`, with a reader that reads nothing at all."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "continual_learning.cli", *words],
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(write)
    assert done.stderr == ""
    if words == ["list"]:  # argparse keeps it to itself that nobody read its help
        assert done.returncode == cli.READER_GONE
