"""How a command ends: exit codes, hints that can be pasted, nothing but text in the terminal."""

import errno
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from continual_learning import cli
from continual_learning.jobs import tree
from continual_learning.jobs.job import divide
from continual_learning.schema.errors import printable
from continual_learning.studies import registry
from continual_learning.studies.store.store import Store
from tests.studies.toy_study import ENVIRONMENT, STUDY

ROOT = Path(__file__).parents[2]
SMALL = registry.get("permuted_digits").at_scale("smoke")


@pytest.mark.parametrize(
    ("code", "expected"),
    [(errno.ENOSPC, 3), (errno.EACCES, 3), (errno.EROFS, 3), (errno.EIO, 3), (errno.ENOENT, 2)],
)
def test_who_is_to_blame(tmp_path, monkeypatch, capsys, code, expected):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    words = ["run", "permuted_digits", "--scale", "smoke", "--out", str(tmp_path / "x")]
    assert cli.main(words) == expected
    assert os.strerror(code) in capsys.readouterr().err


def test_another_process_is_in_the_way(tmp_path, capsys):
    with Store.create(tmp_path / "x", STUDY, ENVIRONMENT):
        assert cli.main(["resume", str(tmp_path / "x")]) == cli.MACHINE == 3
    assert "is being written by another process" in capsys.readouterr().err


def test_a_hint_can_be_pasted(tmp_path, capsys):
    out = tmp_path / "a b; echo 'c'"
    words = ["run", "permuted_digits", "--scale", "smoke", "--methods", "adam", "--seeds", "1"]
    assert cli.main([*words, "--hidden", "4", "--until-task", "1", "--out", str(out)]) == 75
    hint = capsys.readouterr().out.splitlines()[-1].partition("To go on: ")[2]
    assert shlex.split(hint) == ["continual", "resume", str(out)]


def test_stored_text_does_not_command_the_terminal(tmp_path, capsys):
    made = tree.create(tmp_path / "x", divide(SMALL, ["adam"], [0]), {"name": "local"})
    made.failure("adam").write_text("ValueError: \x1b]0;owned\x07\x1b[2J\x9b31m naïve\n")
    assert cli.main(["status", str(made.path)]) == 0
    said = capsys.readouterr().out
    assert r"ValueError: \x1b]0;owned\x07\x1b[2J\x9b31m naïve" in said
    assert printable("a\tb\r\x00\n") == "a\\tb\\r\\x00\n"


INTERRUPTED = """
import os, signal, sys, threading, time
from continual_learning import cli
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["continual", "run", "permuted_digits", "--methods", "adam", "--out", sys.argv[1]]
sys.exit(cli.main())
"""


def test_two_interrupts_in_a_row_end_it_without_a_traceback(tmp_path):
    out = tmp_path / "x"
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(out)],
        cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        while running.poll() is None and not list(out.glob("metrics/*/*.parquet")):
            time.sleep(0.01)
        for _ in range(3):
            running.send_signal(signal.SIGINT)
            time.sleep(0.01)
        _, told = running.communicate(timeout=120)
    # On a busy machine the run may have ended by the first one before the second arrives.
    assert (running.returncode, told) in ((130, "continual: interrupted\n"), (75, ""))
    with Store.open(out) as store:
        assert store.progress()["adam"] >= 0
