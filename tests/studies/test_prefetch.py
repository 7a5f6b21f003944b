"""One thing ahead: in which order things are made, what fails, and how a process ends."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from continual_learning.studies.prefetch import leave, one_ahead

ROOT = Path(__file__).parents[2]
SOON = 60  # seconds; nothing here takes a tenth of one


class Maker:
    """Makes capitals, and notes when it begins with each."""

    def __init__(self, *names):
        self.begun = {name: threading.Event() for name in names}

    def __call__(self, name):
        self.begun[name].set()
        return name.upper()


def test_the_next_one_is_made_while_one_is_in_use_and_no_other():
    make = Maker("a", "b", "c")
    made = one_ahead(make, ["a", "b", "c"])
    assert not make.begun["a"].is_set()
    assert next(made) == "A"
    assert make.begun["b"].wait(SOON) and not make.begun["c"].is_set()
    assert next(made) == "B"
    assert make.begun["c"].wait(SOON)
    assert list(made) == ["C"]
    assert list(one_ahead(make, [])) == []


def test_the_first_two_are_made_side_by_side():
    both = threading.Barrier(2)

    def make(name):
        both.wait(SOON)
        return name

    assert list(one_ahead(make, ["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("for_ever", [True, False])
def test_what_fails_does_so_in_its_turn_if_it_fails_again(for_ever):
    failed = threading.Event()

    def make(name):
        if name == "b" and (for_ever or not failed.is_set()):
            failed.set()
            raise MemoryError(f"no {name}")
        return name

    made = one_ahead(make, ["a", "b"])
    assert next(made) == "a"
    assert failed.wait(SOON)
    if for_ever:
        with pytest.raises(MemoryError, match="no b"):
            next(made)
    else:
        assert list(made) == ["b"]


HEAD = """
import signal, sys, time
from continual_learning.studies.prefetch import leave, one_ahead
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
def make(name):
    time.sleep(0 if name == "a" else seconds)
    print("made", name, flush=True)
"""


def begun(script):
    """A process that makes `a` and then, for long, `b`."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def process(script):
    """Its exit code and output, once it has ended."""
    with begun(script) as running:
        out, told = running.communicate(timeout=SOON)
    return running.returncode, out.split("\n")[:-1], told


def test_a_process_leaves_at_once_what_it_makes():
    script = "seconds = 3600; next(one_ahead(make, 'ab')); print('so far'); leave(75)"
    assert process(script) == (75, ["made a", "so far"], "")


def test_a_process_that_does_not_leave_waits():
    script = "seconds = 0.5; next(one_ahead(make, 'ab')); print('end', flush=True); sys.exit(75)"
    assert process(script) == (75, ["made a", "end", "made b"], "")


def test_a_process_that_waits_for_long_says_how_to_leave():
    with begun("seconds = 3600; next(one_ahead(make, 'ab'))") as running:
        assert running.stderr is not None
        told = running.stderr.readline()
        assert told.startswith("Waiting for b, which is being compiled")
        assert "prefetch.leave(code)" in told
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=SOON) == ("made a\n", "")
    assert running.returncode == 130


def test_a_process_that_an_interrupt_ended_leaves():
    script = "seconds = 3600; next(one_ahead(make, 'ab')); raise KeyboardInterrupt"
    code, out, told = process(script)
    assert (code, out) == (130, ["made a"])
    assert told.endswith("KeyboardInterrupt\n") and "Waiting" not in told


def test_nothing_to_leave():
    assert list(one_ahead(str.upper, "ab")) == ["A", "B"]
    leave(75)
