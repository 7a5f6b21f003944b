"""Measures the times of methods, whose programs are held side by side and run in turn."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, launch, provenance
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.options import DEFAULT, RunOptions
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.studies.store.files import explained, writing
from continual_learning.studies.study import Study
from continual_learning.studies.timings import Timings


def measure(
    experiment: Experiment,
    names: Sequence[str],
    seeds: Sequence[int],
    rounds: int,
    out: Path | None = None,
    options: RunOptions = DEFAULT,
) -> None:
    """Measure how long methods take, print a table, and write it to a file.

    Args:
      experiment: the experiment, as in `methods`.
      names: the names of the methods.
      seeds: the seeds that run side by side in each program.
      rounds: the number of rounds.
      out: the file to write, or None.
      options: the options of the run; only those that concern the process have an effect.
    """
    launch.prepare(options)
    print(
        f"Compiling {len(names)} programs of {experiment.name}, then {rounds + 1} rounds of each.",
        file=sys.stderr,
    )
    found = methods(experiment, names, seeds, rounds)
    print(found.text())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        found.save(out)
        print(f"Wrote {out}.")


def methods(
    experiment: Experiment, names: Sequence[str], seeds: Sequence[int], rounds: int
) -> Timings:
    """Time a chunk of every method in every round, after a round that does not count.

    Chunks are those of a study with its metrics and diagnostics, but without storage. An agent that
    begins to learn after some steps begins at once here.

    Args:
      experiment: the experiment.
      names: the names of the methods. The others are compared with the first.
      seeds: the seeds that run side by side in each program.
      rounds: the number of rounds, at least 1.
    """
    experiment = experiment.with_methods(names)
    chunks = build.chunks(experiment)
    if rounds < 1 or rounds >= chunks:
        raise StudyError(
            f"rounds must be from 1 to {chunks - 1}, one less than the {chunks} chunks of "
            f"{experiment.name}; got {rounds}."
        )
    if "learning_starts" in experiment.fields():
        experiment = experiment.override(learning_starts=0)
    study = Study(experiment, names, seeds)
    lanes, shared = Lanes(study.seeds, study.arrays()), build.data(experiment)
    with contextlib.ExitStack() as stack:
        programs = {}
        for name in names:
            made = program_of(build.trainer(experiment, name, shared), lanes)
            programs[name] = stack.enter_context(contextlib.closing(made))
        with ThreadPoolExecutor() as pool:
            quick = experiment.compilation == "quick"
            list(pool.map(lambda each: each.compile(quick=quick), programs.values()))
        states = {name: each.init() for name, each in programs.items()}
        calls = {name: each.chunk for name, each in programs.items()}
        seconds = timed(calls, states, rounds)
    steps = experiment.steps // chunks * study.lanes
    return Timings(experiment.name, len(seeds), steps, chunks, seconds, provenance.facts())


def timed(
    calls: Mapping[str, Callable[[Any], tuple[Any, Any]]],
    states: Mapping[str, Any],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return {name: the seconds of its calls}, made in turn after one that does not count.

    Args:
      calls: {name: state -> (state, results)}. A call may use up the state that it is given.
      states: {name: the first state}.
      rounds: the number of calls of each name that count.
      clock: a function that returns the time in seconds.
    """
    held, seconds = dict(states), {name: [] for name in calls}
    order = list(calls)
    with _alone():
        for number in range(rounds + 1):
            # Rounds begin with different methods, so that none always runs first on a cool device.
            turn = number % len(order)
            for name in order[turn:] + order[:turn]:
                start = clock()
                # The clock waits for the results too, which might otherwise come only when used.
                held[name], _ = jax.block_until_ready(calls[name](held[name]))
                seconds[name].append(clock() - start)
    return {name: times[1:] for name, times in seconds.items()}


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other process measures on this machine; programs compile side by side."""
    path = Path(tempfile.gettempdir()) / f"continual_bench_{os.getuid()}.lock"
    with explained("lock", path):
        file = writing(path, new=False)
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
