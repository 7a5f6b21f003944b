"""Runs a job; one that runs out of memory becomes two."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jax

from continual_learning.experiments import launch
from continual_learning.experiments.errors import StudyError
from continual_learning.experiments.jobs import tree as trees
from continual_learning.experiments.jobs.gather import gather
from continual_learning.experiments.jobs.job import Job
from continual_learning.experiments.jobs.states import claimed
from continual_learning.experiments.storage import manifest
from continual_learning.experiments.storage.files import StoreError
from continual_learning.experiments.storage.store import Store
from continual_learning.experiments.sweeps.plan import SMALLER, divide

_LOCK = "jobs.lock"  # held while the list of jobs is changed


def attempt(tree: trees.Tree, name: str, **running: Any) -> int | None:
    """Begins a job, or goes on with it.

    Args:
      tree: the jobs.
      name: which one.
      **running: options of `launch.run`.

    Returns:
      The exit code; None if it ran out of memory. The error is not raised, since it would keep all
      arrays of the program alive.
    """
    study, folder = tree.job(name).study, tree.folder(name)
    whole = name[:-1]  # of a half
    if whole and whole not in tree.jobs and tree.folder(whole).is_dir():
        _retire(tree.folder(whole))  # again, where a kill came before it was done
    tree.failure(name).unlink(missing_ok=True)
    try:
        if (folder / manifest.STUDY).is_file():
            return launch.resume(folder, chunks=tree.chunks, **running)
        return launch.run(
            study.experiment,
            study.methods,
            study.seeds,
            folder,
            hyper=study.hyper,
            chunks=tree.chunks,
            **running,
        )
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return None


def halve(tree: trees.Tree, name: str) -> trees.Tree:
    """Puts two jobs into the place of one that ran out of memory, with what it has done.

    Its log, and what went beside the store, such as TensorBoard's files, stay where they are. The
    caller is the only one that runs the job.
    """
    study, folder = tree.job(name).study, tree.folder(name)
    if study.lanes == 1:
        raise StudyError(f"{folder} ran out of memory with a single lane. {SMALLER}")
    begun = (folder / manifest.STUDY).is_file()
    done = begun and any(Store.read(folder).progress().values())
    if done and len(study.methods) > 1:
        raise StudyError(
            f"{folder} ran out of memory after some chunks, with everything kept. Free the memory "
            "of the device and go on."
        )
    halves = [
        Job(f"{name}{end}", half)
        for end, half in zip("ab", divide(study, -(-study.lanes // 2)), strict=True)
    ]
    lane = 0
    for half in halves:
        place = tree.folder(half.name)
        shutil.rmtree(place, ignore_errors=True)  # of a process that was killed while it was here
        if done:
            gather(place, half.study, [(folder, lane + i) for i in range(half.study.lanes)])
        lane += half.study.lanes
    with claimed(tree.path / _LOCK) as ours:
        if not ours:
            raise StoreError(f"{tree.path / _LOCK} is locked by another process: try again.")
        tree = trees.read(tree.path)  # others may have been divided meanwhile
        each = tree.jobs.values()
        jobs = [new for job in each for new in (halves if job.name == name else [job])]
        tree = trees.replace(tree, jobs)
    _retire(folder)
    sizes = " and ".join(str(half.study.lanes) for half in halves)
    trees.note(
        tree.path, f"{name}: {study.lanes} lanes ran out of memory; two jobs of {sizes} instead."
    )
    return tree


def _retire(folder: Path) -> None:
    """Removes what makes a folder that of a study; it may have run out before there was one."""
    (folder / manifest.STUDY).unlink(missing_ok=True)
    for name in ("metrics", "checkpoints"):
        shutil.rmtree(folder / name, ignore_errors=True)
