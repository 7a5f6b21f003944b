"""How long the methods of an experiment take: their programs side by side, run in turn."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, provenance
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.studies.store.files import explained, writing
from continual_learning.studies.study import Study
from continual_learning.studies.timings import Timings


def methods(
    experiment: Experiment, names: Sequence[str], seeds: Sequence[int], rounds: int
) -> Timings:
    """Times a chunk of every method in every round, after a round that does not count.

    Chunks are those of a study, metrics and diagnostics included, storage not. Where learning
    begins after some steps, here it begins at once.

    Args:
      experiment: of which.
      names: the methods; the others are compared with the first.
      seeds: side by side in each program.
      rounds: how many, at least 1.
    """
    experiment = experiment.with_methods(names)
    chunks = build.chunks(experiment)
    if rounds < 1 or rounds >= chunks:
        raise StudyError(
            f"rounds must be from 1 to {chunks - 1}, one less than the {chunks} chunks of "
            f"{experiment.name}; got {rounds}."
        )
    if hasattr(experiment, "learning_starts"):
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
    """Seconds of `rounds` calls of each, in turn, after one that does not count.

    Args:
      calls: {name: state -> (state, results)}; the state that goes in may be used up.
      states: the first of each.
      rounds: how many.
      clock: says the time in seconds.
    """
    held, seconds = dict(states), {name: [] for name in calls}
    order = list(calls)
    with _alone():
        for number in range(rounds + 1):
            # Another one begins every round, so that none always follows the same one's heat.
            turn = number % len(order)
            for name in order[turn:] + order[:turn]:
                start = clock()
                # The results are waited for too: what nobody asks for is not computed.
                held[name], _ = jax.block_until_ready(calls[name](held[name]))
                seconds[name].append(clock() - start)
    return {name: times[1:] for name, times in seconds.items()}


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Waits for other measurements on this machine: they compile side by side, and run in turn."""
    path = Path(tempfile.gettempdir()) / f"continual_bench_{os.getuid()}.lock"
    with explained("lock", path):
        file = writing(path, new=False)
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
