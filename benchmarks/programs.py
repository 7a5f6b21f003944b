"""Training programs, compiled side by side; `experiments.bench.timed` runs them in turn."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from continual_learning.agents.common.lanes import over_lanes
from continual_learning.agents.common.trainer import COMPILER_OPTIONS

Parts = dict[str, tuple[Any, Any]]
"""{name: (run, first state)} with run(state) -> (state, results)."""


def keys(seeds: int) -> jax.Array:
    """Return a key for each seed."""
    return jax.vmap(jax.random.key)(jnp.arange(seeds, dtype=jnp.uint32))


def training(trainer, seeds: int) -> tuple[Any, Any]:
    """Return a chunk of a training program over seeds, and its first state."""
    init, chunk = (over_lanes(f, seeds, (0, None, None)) for f in (trainer.init, trainer.chunk))
    state = jax.jit(init)(keys(seeds), {}, ())
    return lambda state: chunk(state, {}, ()), state


def compiled(parts: Parts, options: Mapping[str, Any] | None = COMPILER_OPTIONS) -> dict[str, Any]:
    """Return the programs; they donate their state.

    Each is compiled once: a state that came out of it and did not fit it would be an error.
    """
    lowered = [jax.jit(run, donate_argnums=0).lower(state) for run, state in parts.values()]
    with ThreadPoolExecutor() as pool:
        programs = pool.map(lambda each: each.compile(options and dict(options)), lowered)
        return dict(zip(parts, programs, strict=True))


def first_states(parts: Parts) -> dict[str, Any]:
    """Return what each program begins with."""
    return {name: state for name, (_, state) in parts.items()}
