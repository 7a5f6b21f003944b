"""The progress of the jobs of a tree."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from continual_learning.jobs.tree import Tree
from continual_learning.schema.errors import command, printable
from continual_learning.studies import build, launch
from continual_learning.studies.store import manifest
from continual_learning.studies.store.files import StoreError
from continual_learning.studies.store.lock import Lock
from continual_learning.studies.store.store import Store

Word = Literal["not begun", "running", "to resume", "finished", "failed"]

_PATIENCE = 10.0  # seconds


class State(NamedTuple):
    """The progress of a job.

    Attributes:
      word: the state; a job "to resume" was stopped or killed.
      done, chunks: the finished chunks and all chunks of its methods.
      reason: the reason of a failure, in a line.
    """

    word: Word
    done: int
    chunks: int
    reason: str = ""


def state(tree: Tree, name: str) -> State:
    """Return the progress of a job without changing anything."""
    study, folder = tree.job(name).study, tree.folder(name)
    whole = build.chunks(study.experiment)
    chunks = whole if tree.chunks is None else min(tree.chunks, whole)
    done, finished = 0, False
    if manifest.is_study(folder):
        store = Store.read(folder)
        progress = store.progress()
        done = sum(progress.get(method, 0) for method in study.methods)
        finished = all(
            launch.ended(store, study.experiment, method, tree.chunks) for method in study.methods
        )
    total = chunks * len(study.methods)
    if finished:
        return State("finished", done, total)
    if is_claimed(tree.lock(name)):
        return State("running", done, total)
    if tree.failure(name).exists():
        return State("failed", done, total, _last_line(tree.failure(name)))
    return State("to resume" if done else "not begun", done, total)


def states(tree: Tree) -> dict[str, State]:
    """Return {name: state} of all jobs."""
    return {name: state(tree, name) for name in tree.jobs}


def describe(tree: Tree, within: Path | None = None) -> str:
    """Return a line for the tree, one for every job, and one with the file of every failure.

    Args:
      tree: the jobs.
      within: the folder to resume, if not that of the jobs.
    """
    found = states(tree)
    counts = collections.Counter(each.word for each in found.values())
    summary = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    width = max(map(len, found))
    lines = [f"{tree.path}: {len(found)} jobs, {summary}"]
    for name, each in found.items():
        line = f"  {name:{width}}  {each.done:5} of {each.chunks} chunks  {each.word}"
        lines.append(f"{line}: {each.reason}" if each.reason else line)
        if each.word == "failed":
            lines.append(f"  {'':{width}}  see {tree.failure(name)}")
    if counts["failed"]:
        again = command("resume", within or tree.path, "--retry")
        lines.append(f"To try again what failed: {again}")
    return printable("\n".join(lines))


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Lock the file of a job, and yield whether that was possible.

    A process that was killed, or that reads the lock, holds it for a moment longer, so this waits
    for a few seconds.
    """
    end = time.monotonic() + _PATIENCE
    lock = None
    while lock is None:
        try:
            lock = Lock(path)
        except StoreError:
            if not is_claimed(path):  # No other process holds the lock.
                raise
            if time.monotonic() >= end:
                yield False
                return
            time.sleep(0.1)
    try:
        yield True
    finally:
        lock.release()


def is_claimed(path: Path) -> bool:
    """Return whether a process has locked the file of a job."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _last_line(path: Path) -> str:
    lines = path.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
