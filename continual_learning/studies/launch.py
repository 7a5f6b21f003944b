"""Runs a study in a folder, resumes it, and reports its progress."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jax

from continual_learning import extras, trust
from continual_learning.agents.common.trainer import HostTrainer, Program, Trainer
from continual_learning.schema.errors import command
from continual_learning.studies import build, memory, provenance
from continual_learning.studies import methods as checks
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.inactive import ADVICE, inactive
from continual_learning.studies.nonfinite import Guard, NonfiniteError
from continual_learning.studies.options import DEFAULT, RunOptions
from continual_learning.studies.prefetch import one_ahead
from continual_learning.studies.progress import Display, display
from continual_learning.studies.runner import (
    Columns,
    Lanes,
    Progress,
    check_room,
    program_of,
    run_method,
)
from continual_learning.studies.sinks import Sink, open_sinks
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
from continual_learning.studies.watch import Watch, ended_by_collapse

REQUEUE = 75
"""The exit code of a study that stopped before its end and can be resumed."""


def run(
    experiment: Experiment,
    methods: Sequence[str],
    seeds: Sequence[int],
    out: str | Path,
    options: RunOptions = DEFAULT,
    *,
    hyper: Mapping[str, Sequence[float]] | None = None,
) -> int:
    """Begin a study in a new folder; return the exit code.

    Args:
      experiment: the experiment, as in `Study`.
      methods: the names of the methods. A method that the experiment lacks has its defaults.
      seeds: one seed per lane.
      out: the folder of the study.
      options: the options of the run.
      hyper: the numbers in which lanes differ, as in `Study`.

    Returns:
      0 if all methods have ended, else `REQUEUE`.
    """
    prepare(options)
    out = Path(out)
    experiment = build.fitted(experiment.with_methods(methods))
    checks.check(experiment)
    study = Study(experiment, methods, seeds, hyper or {})
    # A missing package raises before the folder is made, because a folder can be used only once.
    for name in options.sinks:
        extras.require(name)
    with memory.explained(study, out):
        data = build.data(experiment)
    facts = provenance.facts()
    with Store.create(out, study.to_dict(), facts) as store, memory.explained(study, out):
        return _go(store, data, options)


def resume(path: str | Path, options: RunOptions = DEFAULT) -> int:
    """Go on with a study; return the exit code."""
    prepare(options)
    path = Path(path)
    load_plugins(path)
    with Store.open(path) as store:
        store.log(f"resumed by {provenance.line()}")
        study = Study.from_dict(store.study)
        checks.check(study.experiment)
        with memory.explained(study, path):
            return _go(store, build.data(study.experiment), options)


def status(path: Path) -> str:
    """Return a text about the progress of each method of a study."""
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
    """Return whether a method has ended.

    Args:
      store: the store of the study.
      experiment: the experiment of the study.
      method: the name of the method.
      chunks: the number of chunks after which the method counts as finished, if not all.

    Returns:
      Whether the method has finished its chunks, or was ended by collapse.
    """
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


def prepare(options: RunOptions = DEFAULT) -> None:
    """Set what JAX and experiments read once: call it before any array or experiment is made."""
    trust.allow(options.trust_modules)
    if options.deterministic:
        flags = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        jax.config.update("jax_compilation_cache_dir", str(cache / "continual_learning" / "jax"))


def _go(store: Store, data: Any, options: RunOptions) -> int:
    """Run the rest of a study; return the exit code."""
    with ExitStack() as opened:
        outlets = open_sinks(list(options.sinks), store.path, store.study)
        for outlet in outlets:
            opened.callback(outlet.close)
        stopped = opened.enter_context(stop_signals())
        shown = opened.enter_context(display(options.quiet, len(store.study["methods"])))
        session = _Session(store, data, options, stopped, outlets, shown)
        session.run()
    finished = all(map(session.ended, session.study.methods))
    if not options.quiet:
        _tell_end(store, session.study, finished, options)
    return 0 if finished else REQUEUE


class _Session:
    """The run of a study in this process.

    Args:
      store: the store of the study.
      data: the data that all methods share, by `build.data`.
      options: the options of the run.
      stopped: a function that returns whether a signal has asked the run to end.
      outlets: the sinks that take the metrics in addition to the store.
      shown: the display of the progress.
    """

    def __init__(
        self,
        store: Store,
        data: Any,
        options: RunOptions,
        stopped: Callable[[], bool],
        outlets: Sequence[Sink],
        shown: Display,
    ):
        self.store, self.data, self.options = store, data, options
        self.stopped, self.outlets, self.shown = stopped, outlets, shown
        self.began = time.monotonic()
        self.study = study = Study.from_dict(store.study)
        self.lanes, self.done = Lanes(study.seeds, study.arrays()), store.progress()
        total, until_task = build.chunks(study.experiment), options.until_task
        self.total = self.until = total
        if options.chunks is not None:
            self.until = min(self.until, options.chunks)
        if until_task is not None:
            self.until = min(self.until, until_task * total // study.experiment.tasks)

    def run(self) -> None:
        """Run the methods that are left, and compile the next one while one runs."""
        left = [method for method in self.study.methods if not self.ended(method)]
        programs = one_ahead(self.compiled, left)
        for method in left:
            self.shown.method(method, self.done.get(method, 0), self.total)
            self.store.log(f"{method}: begins")
            self.run_method(method, *next(programs))
            if self.stop():
                break

    def compiled(self, method: str) -> tuple[Trainer | HostTrainer, Program]:
        """Return the trainer of a method and its program, compiled if there is a chunk to run."""
        trainer = build.trainer(self.study.experiment, method, self.data)
        program = program_of(trainer, self.lanes)
        check_room(program.like)
        done = self.done.get(method, 0)
        if done < self.until:
            program.compile(fresh=not done, quick=self.study.experiment.compilation == "quick")
        return trainer, program

    def run_method(self, method: str, trainer: Trainer | HostTrainer, program: Program) -> None:
        """Run a method to its end, a collapse or a stop; raise if it must be finite but is not."""
        watch = Watch(self.store, self.study.experiment, method, trainer.headline)
        guard = Guard(self.study.lanes)

        def extend(chunk: int, columns: Columns) -> Columns:
            if found := guard(columns):
                line = found.told(method)
                self.store.log(line)
                print(f"Warning: {line}", file=sys.stderr, flush=True)
            return watch(chunk, columns)

        def halted() -> bool:
            return self.options.on_nonfinite == "stop" and guard.found is not None

        def report(progress: Progress) -> None:
            for outlet in self.outlets:
                outlet.write(progress.method, progress.columns)
            self.shown.chunk(progress, trainer.headline)

        finished = run_method(
            method,
            trainer,
            self.lanes,
            self.store,
            program=program,
            extend=extend,
            stop=lambda: self.stop() or watch.ended or halted(),
            report=report,
            until=self.until,
            checkpoint_seconds=self.options.checkpoint_seconds,
        )
        word = "finished" if finished else "ended by collapse" if watch.ended else "stopped"
        self.store.log(f"{method}: {word}")
        if guard.found is not None and halted():
            raise NonfiniteError(
                f"{guard.found.told(method)} The run ended with everything saved in "
                f"{self.store.path}; to go on all the same, resume it with --on-nonfinite warn."
            )

    def stop(self) -> bool:
        """Return whether the time limit is reached or a signal came."""
        limit = self.options.time_limit
        return self.stopped() or (limit is not None and time.monotonic() - self.began >= limit)

    def ended(self, method: str) -> bool:
        """Return whether nothing of a method is left to run."""
        return ended(self.store, self.study.experiment, method, self.options.chunks)


def _tell_end(store: Store, study: Study, finished: bool, options: RunOptions) -> None:
    """Print how the methods of a study ended."""
    experiment, methods = study.experiment, study.methods
    collapsed = [method for method in methods if ended_by_collapse(store, experiment, method)]
    if collapsed:
        print(
            f"Ended by collapse ({experiment.collapse}), with everything kept: "
            f"{', '.join(collapsed)}. They are not resumed; a study without stop_seeds and "
            "stop_share runs them to their end."
        )
    idle = inactive(store, experiment, methods) if finished else []
    if idle:
        print(f"Never reset a unit: {', '.join(idle)}. Their rows are the optimizer's: {ADVICE}")
    if not finished and options.chunks is None:  # a caller that limits the chunks goes on
        print(f"Stopped with everything kept. To go on: {command('resume', store.path)}")


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Let SIGTERM and SIGINT end the run after the chunk, and a second one end it at once."""
    caught: list[int] = []

    def note(number: int, _: Any) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, note)
    except ValueError:  # outside the main thread, the caller handles signals
        pass
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
