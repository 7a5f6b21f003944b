"""Runs a study in a folder, goes on with it, and says how far it is."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from continual_learning import extras, trust
from continual_learning.agents.common.trainer import HostTrainer, Program, Trainer
from continual_learning.schema.errors import command
from continual_learning.studies import build, memory, provenance, sinks
from continual_learning.studies import methods as checks
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.inactive import ADVICE, inactive
from continual_learning.studies.nonfinite import Guard, NonfiniteError, OnNonfinite
from continual_learning.studies.prefetch import one_ahead
from continual_learning.studies.progress import display
from continual_learning.studies.runner import (
    Columns,
    Lanes,
    Progress,
    check_room,
    program_of,
    run_method,
)
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
from continual_learning.studies.watch import Watch, ended_by_collapse

REQUEUE = 75
"""Exit code of a study that was told to stop: run it again to go on."""

CHECKPOINT_SECONDS = 60.0


def run(
    experiment: Experiment,
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    time_limit: float | None = None,
    quiet: bool = False,
    sinks: Sequence[str] = (),
    deterministic: bool = False,
    trust_modules: bool = False,
    until_task: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_nonfinite: OnNonfinite = "warn",
    hyper: Mapping[str, Sequence[float]] | None = None,
    chunks: int | None = None,
) -> int:
    """Begins a study in the new folder `out`; the exit code.

    Args:
      experiment: as in `Study`, like `methods`, `seeds` and `hyper`.
      methods: which; those without options in the experiment have their defaults.
      seeds: one per lane.
      out: the folder.
      time_limit: seconds after which to stop with everything saved.
      quiet: whether to show no progress.
      sinks: where metrics go beside the folder.
      deterministic: same numbers again on a GPU.
      trust_modules: whether modules that the experiment names may be imported.
      until_task: how many tasks to complete of every method, if not all.
      checkpoint_seconds: between checkpoints.
      on_nonfinite: what happens when a loss or a parameter is first not finite: "warn" says so, and
        "stop" ends the run by a `NonfiniteError` with everything saved.
      hyper: numbers of the lanes.
      chunks: how many make up the run of a method for now, if not all: it counts as finished then.
    """
    prepare(deterministic, trust_modules)
    experiment = build.fitted(experiment.with_methods(methods))
    checks.check(experiment)
    study = Study(experiment, methods, seeds, hyper or {})
    # What is missing shows before there is a folder, which could not be used again.
    for name in sinks:
        extras.require(name)
    with memory.explained(study, out):
        data = build.data(experiment)
    facts = provenance.facts()
    with Store.create(out, study.to_dict(), facts) as store, memory.explained(study, out):
        return _go(
            store,
            data,
            time_limit,
            quiet,
            sinks,
            until_task,
            checkpoint_seconds,
            on_nonfinite,
            chunks,
        )


def resume(
    path: Path,
    *,
    time_limit: float | None = None,
    quiet: bool = False,
    sinks: Sequence[str] = (),
    deterministic: bool = False,
    trust_modules: bool = False,
    until_task: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_nonfinite: OnNonfinite = "warn",
    chunks: int | None = None,
) -> int:
    """Goes on with a study; the exit code. Arguments as in `run`."""
    prepare(deterministic, trust_modules)
    load_plugins(path)
    with Store.open(path) as store:
        store.log(f"resumed by {provenance.line()}")
        study = Study.from_dict(store.study)
        checks.check(study.experiment)
        with memory.explained(study, path):
            data = build.data(study.experiment)
            return _go(
                store,
                data,
                time_limit,
                quiet,
                sinks,
                until_task,
                checkpoint_seconds,
                on_nonfinite,
                chunks,
            )


def status(path: Path) -> str:
    """How far each method of a study is."""
    store = Store.read(path)
    study = Study.from_dict(store.study)
    experiment, methods = study.experiment, study.methods
    done, total = store.progress(), build.chunks(experiment)
    lines = [f"{experiment.name}: {_lanes(study)}, {_count(len(methods), 'method')}"]
    for method in methods:
        finished = done.get(method, 0)
        word = "finished" if finished == total else "not begun" if finished == 0 else "to resume"
        if ended_by_collapse(store, experiment, method):
            word = "ended by collapse"
        if lost := store.lost_rows(method):
            word = f"to resume: {lost.name} is {'cut off' if lost.exists() else 'missing'}"
        lines.append(f"  {method:16} {finished:5} of {total} chunks  {word}")
    return "\n".join(lines)


def ended(
    store: Store,
    experiment: Experiment,
    method: str,
    chunks: int | None = None,
) -> bool:
    """Whether a method has come to its end (or to so many chunks), or was ended by collapse."""
    total = build.chunks(experiment)
    end = total if chunks is None else min(chunks, total)
    done = store.progress().get(method, 0) >= end
    return done or ended_by_collapse(store, experiment, method)


def _lanes(study: Study) -> str:
    if not study.hyper:
        return _count(study.lanes, "seed")
    return f"{_count(study.lanes, 'lane')} (seeds and {', '.join(study.hyper)})"


def _count(number: int, of: str) -> str:
    return f"{number} {of}" + "s" * (number != 1)


def prepare(deterministic: bool = False, trust_modules: bool = False) -> None:
    """Settings that must be there before the first array is, and before an experiment is built."""
    trust.allow(trust_modules)
    if deterministic:
        flags = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        jax.config.update("jax_compilation_cache_dir", str(cache / "continual_learning" / "jax"))


def _go(
    store: Store,
    data: Any,
    time_limit: float | None,
    quiet: bool,
    names: Sequence[str],
    until_task: int | None,
    checkpoint_seconds: float,
    on_nonfinite: OnNonfinite,
    chunks: int | None = None,
) -> int:
    study = Study.from_dict(store.study)
    experiment, methods = study.experiment, study.methods
    began = time.monotonic()
    outlets = sinks.open_sinks(list(names), store.path, store.study)
    try:
        with stop_signals() as stopped, display(quiet, len(methods)) as shown:
            total = build.chunks(experiment)
            until = total if chunks is None else min(chunks, total)
            if until_task is not None:
                until = min(until, until_task * total // experiment.tasks)

            def over(method: str) -> bool:
                return ended(store, experiment, method, chunks)

            def stop() -> bool:
                late = time_limit is not None and time.monotonic() - began >= time_limit
                return late or stopped()

            lanes, done = Lanes(study.seeds, study.arrays()), store.progress()

            def made(method: str) -> tuple[Trainer | HostTrainer, Program]:
                trainer = build.trainer(experiment, method, data)
                program = program_of(trainer, lanes)
                check_room(program.like)
                if done.get(method, 0) < until:
                    quick = experiment.compilation == "quick"
                    program.compile(fresh=not done.get(method), quick=quick)
                return trainer, program

            def note(line: str) -> None:
                store.log(line)
                print(f"Warning: {line}", file=sys.stderr, flush=True)

            left = [method for method in methods if not over(method)]
            programs = one_ahead(made, left)

            def go_on(method: str) -> None:
                shown.method(method, done.get(method, 0), total)
                store.log(f"{method}: begins")
                trainer, program = next(programs)

                def report(progress: Progress) -> None:
                    for outlet in outlets:
                        outlet.write(progress.method, progress.columns)
                    shown.chunk(progress, trainer.headline)

                watch = Watch(store, experiment, method, trainer.headline)
                guard = Guard(study.lanes)

                def extend(chunk: int, columns: Columns) -> Columns:
                    if found := guard(columns):
                        note(found.told(method))
                    return watch(chunk, columns)

                def halted() -> bool:
                    return on_nonfinite == "stop" and guard.found is not None

                ended = run_method(
                    method,
                    trainer,
                    lanes,
                    store,
                    program=program,
                    extend=extend,
                    stop=lambda: stop() or watch.ended or halted(),
                    report=report,
                    until=until,
                    checkpoint_seconds=checkpoint_seconds,
                )
                word = "finished" if ended else "ended by collapse" if watch.ended else "stopped"
                store.log(f"{method}: {word}")
                if guard.found is not None and halted():
                    raise NonfiniteError(
                        f"{guard.found.told(method)} The run ended with everything saved in "
                        f"{store.path}; to go on all the same, resume it with --on-nonfinite warn."
                    )

            for method in left:
                go_on(method)
                if stop():
                    break
            finished = all(map(over, methods))
    finally:
        for outlet in outlets:
            outlet.close()
    collapsed = [method for method in methods if ended_by_collapse(store, experiment, method)]
    if collapsed and not quiet:
        print(
            f"Ended by collapse ({experiment.collapse}), with everything kept: "
            f"{', '.join(collapsed)}. They are not resumed; a study without stop_seeds and "
            "stop_share runs them to their end."
        )
    idle = inactive(store, experiment, methods) if finished and not quiet else []
    if idle:
        print(f"Never reset a unit: {', '.join(idle)}. Their rows are the optimizer's: {ADVICE}")
    if not finished and not quiet and chunks is None:  # else whoever asked for so many goes on
        print(f"Stopped with everything kept. To go on: {command('resume', store.path)}")
    return 0 if finished else REQUEUE


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """SIGTERM and SIGINT end the run after the chunk; a second one ends it at once."""
    caught: list[int] = []

    def note(number: int, _: Any) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, note)
    except ValueError:  # not the main thread: whoever runs us handles signals
        pass
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
