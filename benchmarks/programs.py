"""Training programs, compiled side by side and timed in turn."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

Parts = dict[str, tuple[Any, Any]]
"""{name: (run, first state)} with run(state) -> (state, results)."""


def keys(seeds: int) -> jax.Array:
    """A key for each seed."""
    return jax.vmap(jax.random.key)(jnp.arange(seeds, dtype=jnp.uint32))


def training(trainer, seeds: int) -> tuple[Any, Any]:
    """A chunk of a training program over seeds, and its first state."""
    state = jax.jit(jax.vmap(trainer.init, (0, None, None)))(keys(seeds), {}, ())
    chunk = jax.vmap(trainer.chunk, (0, None, None))
    return lambda state: chunk(state, {}, ()), state


def compiled(parts: Parts) -> dict[str, Any]:
    """The programs; they donate their state.

    Each is compiled once: a state that came out of it and did not fit it would be an error.
    """
    lowered = [jax.jit(run, donate_argnums=0).lower(state) for run, state in parts.values()]
    with ThreadPoolExecutor() as pool:
        programs = pool.map(lambda each: each.compile(), lowered)
        return dict(zip(parts, programs, strict=True))


def timed(parts: Parts, programs: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Seconds of `rounds` calls of each program, in turn, after one that does not count."""
    states = {name: state for name, (_, state) in parts.items()}
    seconds = {name: [] for name in programs}
    with alone():
        for _ in range(rounds + 1):
            for name, program in programs.items():
                start = time.perf_counter()
                # The results are waited for too: what nobody asks for is not computed.
                states[name], _ = jax.block_until_ready(program(states[name]))
                seconds[name].append(time.perf_counter() - start)
    return {name: times[1:] for name, times in seconds.items()}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Waits for other benchmarks on this machine: they compile side by side, and run in turn."""
    with open(Path(tempfile.gettempdir()) / "continual_benchmark.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
