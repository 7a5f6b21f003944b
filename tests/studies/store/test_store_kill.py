"""A process that is killed: the state and the rows that it leaves fit together exactly."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from continual_learning.analysis import load
from continual_learning.studies.store.store import Store
from tests.studies import toy_study
from tests.studies.toy_study import ENVIRONMENT, STUDY, check_consistent, table_of, train

ROOT = Path(__file__).parents[3]
PYTHON = [sys.executable, "-W", "ignore", "-m"]


def run_and_kill(folder: Path, method: str, seconds: float) -> None:
    """Lets the toy study complete a chunk and run for a while, then kills it."""
    command = [*PYTHON, "tests.studies.toy_study", str(folder), "1000000", method]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"writing\n"
            time.sleep(seconds)
            assert process.poll() is None
        finally:
            os.kill(process.pid, signal.SIGKILL)


def kill_again_and_again(folder: Path, method: str, times: int) -> None:
    rng = random.Random(times)
    done = -1
    for _ in range(times):
        run_and_kill(folder, method, rng.uniform(0, 0.4))
        # What was killed is readable as it is: whole chunks, none twice.
        saved = Store.read(folder).progress().get(method, 0)
        shown = len(load(folder)) // (toy_study.LANES * toy_study.ROWS)
        assert saved <= shown <= saved + 1
        assert load(folder).equals(table_of({method: shown}))
        now = check_consistent(folder, method)
        assert now > done
        done = now
    with Store.open(folder) as store:
        train(store, method, done + 3)
    assert check_consistent(folder, method) == done + 2


@pytest.mark.parametrize(("method", "times"), [("cpr", 3), ("sac", 2)])
def test_killed_at_random_moments(folder, method, times):
    kill_again_and_again(folder, method, times)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cpr", "sac"])
def test_killed_at_twenty_random_moments(folder, method):
    kill_again_and_again(folder, method, 20)


# Every event by which the store changes names on the disk. Python announces each before it happens.
EVENTS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}
CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND  # of those that open


def exit_at(number: int) -> None:
    """Ends this process, as a kill would, before its event of this number."""
    count = 0

    def hook(event: str, args: tuple) -> None:
        nonlocal count
        if event not in EVENTS or (event == "open" and not args[2] & CHANGING):
            return
        count += 1
        if count == number:
            os._exit(9)

    sys.addaudithook(hook)


def in_child(number: int, action) -> bool:
    """Runs `action` in a child that ends before its event `number`; whether it came so far."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            exit_at(number)
            action()
            status = 0
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), code
    return code == 9


def kill_everywhere(base: Path, action: str, method: str, stride: int) -> None:
    """Kills the making or the running of a study before its events, each time in a new folder.

    To be called in a process without threads, which a fork would not copy.
    """

    def create(folder: Path) -> None:
        Store.create(folder, STUDY, ENVIRONMENT).close()

    def run(folder: Path) -> None:
        with Store.open(folder) as store:
            train(store, method, 4)

    killed, number = True, 1 - stride
    while killed:
        number += stride
        folder = base / f"{number:04d}"
        if action == "create":
            killed = in_child(number, lambda folder=folder: create(folder))
        else:
            in_child(0, lambda folder=folder: create(folder))
            killed = in_child(number, lambda folder=folder: run(folder))


@pytest.mark.parametrize(
    ("action", "method", "stride", "least"),
    [
        ("create", "cpr", 1, 5),
        ("run", "cpr", 7, 8),
        ("run", "sac", 11, 8),
        pytest.param("run", "cpr", 1, 50, marks=pytest.mark.slow),
        pytest.param("run", "sac", 1, 80, marks=pytest.mark.slow),
    ],
)
def test_killed_before_every_event(tmp_path, action, method, stride, least):
    code = f"kill_everywhere(Path({str(tmp_path)!r}), {action!r}, {method!r}, {stride})"
    code = f"from tests.studies.store.test_store_kill import *; {code}"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True)
    folders = sorted(tmp_path.iterdir())
    assert len(folders) > least
    for folder in folders:
        if not (folder / "study.toml").exists():
            Store.create(folder, STUDY, ENVIRONMENT).close()
        assert Store.read(folder).study == STUDY
        done = check_consistent(folder, method)
        with Store.open(folder) as store:
            train(store, method, 4)
        assert check_consistent(folder, method) == 3 >= done
