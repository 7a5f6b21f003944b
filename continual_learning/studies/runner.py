"""Runs all seeds of a method as one program, chunk by chunk."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from continual_learning.agents.common.lanes import over_lanes
from continual_learning.agents.common.trainer import (
    QUICK,
    HostTrainer,
    Program,
    Trainer,
    planned_bytes,
)
from continual_learning.schema.errors import StudyError

Columns = dict[str, np.ndarray]


class Keeper(Protocol):
    """Where rows and states go: a `Store`."""

    def write_part(self, method: str, chunk: int, columns: Mapping[str, np.ndarray]) -> None:
        """Keeps the rows of a chunk."""
        ...

    def save(self, method: str, chunk: int, state: Any, lanes: int, ring: str | None) -> None:
        """Keeps the first `lanes` lanes of the state after a chunk; `ring` as a `Trainer` says."""
        ...

    def restore(self, method: str, like: Any) -> tuple[int, Any] | None:
        """The newest state and its chunk."""
        ...


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The seeds that run side by side, spread over the devices.

    Attributes:
      seeds: one per lane.
      hyper: {name: [lanes]}, hyper-parameters that differ between lanes.
      devices: lanes are divided among them.
    """

    seeds: Sequence[int]
    hyper: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    devices: Sequence[Any] = dataclasses.field(default_factory=jax.devices)

    @property
    def padding(self) -> int:
        """Lanes that only fill up the last device; they repeat the last lane."""
        return -len(self.seeds) % len(self.devices)

    @property
    def sharding(self) -> NamedSharding:
        """Where [lanes, …] arrays are: a part on each device."""
        return NamedSharding(self._mesh, PartitionSpec("lanes"))

    def place(self, tree: Any) -> Any:
        """Puts [lanes, …] arrays on the devices, padded."""

        def put(x: Any) -> jax.Array:
            x = jnp.concatenate([x, *[x[-1:]] * self.padding]) if self.padding else x
            return jax.device_put(x, self.sharding)

        return jax.tree.map(put, tree)

    def replicate(self, tree: Any) -> Any:
        """Puts arrays that all lanes share on every device."""
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

    def real(self, tree: Any) -> Any:
        """[lanes, …] arrays without the padding."""
        count = len(self.seeds)
        return jax.tree.map(lambda x: x[:count], tree) if self.padding else tree

    def keys(self) -> jax.Array:
        """A key per lane. It depends on the seed alone, so that methods meet the same tasks."""
        return jax.vmap(jax.random.key)(jnp.asarray(self.seeds, jnp.uint32))

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("lanes",))


class Compiled:
    """The program of a `Trainer`: its functions, mapped over lanes and compiled.

    Args:
      trainer: of one seed.
      lanes: the seeds.
    """

    def __init__(self, trainer: Trainer, lanes: Lanes):
        hyper = {name: jnp.asarray(values) for name, values in lanes.hyper.items()}
        self._lanes = lanes
        self._keys, self._hyper = lanes.place((lanes.keys(), hyper))
        self._data = lanes.replicate(trainer.data)
        self._quick = QUICK if lanes.devices[0].platform == "cpu" else {}
        count = len(lanes.seeds) + lanes.padding
        # A first state, one that was kept and one from a chunk lie alike: chunks are one program.
        self._init: Any = jax.jit(
            over_lanes(trainer.init, count, (0, 0, None)),
            out_shardings=lanes.sharding,
            compiler_options=self._quick,  # it runs once
        )
        self._chunk: Any = jax.jit(
            over_lanes(trainer.chunk, count, (0, 0, None)),
            donate_argnums=0,
            out_shardings=(lanes.sharding, None),
            compiler_options=dict(trainer.options),
        )

    @functools.cached_property
    def _state(self) -> Any:
        """A tree like the state, padded, with its places."""
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._lanes.sharding),
            jax.eval_shape(self._init, self._keys, self._hyper, self._data),
        )

    @property
    def like(self) -> Any:
        """A tree like the state, without padding."""
        lanes = len(self._lanes.seeds)
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((lanes, *x.shape[1:]), x.dtype), self._state
        )

    @property
    def columns(self) -> list[str]:
        """Names of the columns of rows."""
        return list(jax.eval_shape(self._chunk, self._state, self._hyper, self._data)[1])

    def compile(self, fresh: bool = True, quick: bool = False) -> None:
        """Compiles `chunk`, and `init` if it is a fresh run; nothing is run."""
        state, more = self._state, self._quick if quick else {}
        if fresh:
            self._init = _ready(self._init, {}, self._keys, self._hyper, self._data)
        self._chunk = _ready(self._chunk, more, state, self._hyper, self._data)

    def init(self) -> Any:
        """The first state, padded."""
        return self._init(self._keys, self._hyper, self._data)

    def place(self, state: Any) -> Any:
        """A state on the devices, padded."""
        return self._lanes.place(state)

    def chunk(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """The next chunk."""
        state, rows = self._chunk(state, self._hyper, self._data)
        return state, self._lanes.real(rows)

    def memory(self) -> int:
        """Bytes that a chunk needs of each device; nothing is run."""
        self.compile(fresh=False)
        return planned_bytes(self._chunk)

    def close(self) -> None:
        """There is nothing to free."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """What is told after every chunk.

    Attributes:
      method: which method.
      done, chunks: how far it is.
      seconds: the chunk's duration.
      steps: steps of all lanes in it.
      columns: its rows.
    """

    method: str
    done: int
    chunks: int
    seconds: float
    steps: int
    columns: Columns


def run_method(
    method: str,
    trainer: Trainer | HostTrainer,
    lanes: Lanes,
    keeper: Keeper,
    *,
    program: Program | None = None,
    extend: Callable[[int, Columns], Columns] = lambda chunk, columns: columns,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[Progress], None] = lambda progress: None,
    until: int | None = None,
    checkpoint_seconds: float = 60.0,
) -> bool:
    """Runs, or goes on with, all lanes of a method.

    Args:
      method: its name in the store.
      trainer: what to run.
      lanes: the seeds.
      keeper: where rows and states go.
      program: `program_of` these, if it was made before; it is closed here.
      extend: (chunk, its rows) -> the rows to keep, with columns that the host adds.
      stop: asked after every chunk; True ends the run with everything kept.
      report: told after every chunk.
      until: how many chunks there shall be at most, if not all; the run ends there as by `stop`.
      checkpoint_seconds: how long to go without keeping the state. Chunks after the last state
        that was kept are run again after a crash.

    Returns:
      Whether the method is finished.
    """
    with contextlib.closing(program or program_of(trainer, lanes)) as program:
        found = keeper.restore(method, program.like)
        first = 0 if found is None else found[0] + 1
        end = trainer.chunks if until is None else min(until, trainer.chunks)
        if first >= end:
            return first >= trainer.chunks
        state = program.init() if found is None else program.place(found[1])
        kept = time.monotonic()
        for number in range(first, end):
            begin = time.monotonic()
            state, rows = program.chunk(state)
            columns = extend(number, tidy(lanes, rows))
            keeper.write_part(method, number, columns)
            now = time.monotonic()
            last, stopping = number + 1 == end, stop()
            if last or stopping or now - kept >= checkpoint_seconds:
                # With its padding: a slice here would be a copy of all of it on the device.
                keeper.save(method, number, state, len(lanes.seeds), trainer.ring)
                kept = time.monotonic()
            steps = int(columns["step"].max()) // (number + 1) * len(lanes.seeds)
            report(Progress(method, number + 1, trainer.chunks, now - begin, steps, columns))
            if stopping and not last:
                return False
    return end == trainer.chunks


def program_of(trainer: Trainer | HostTrainer, lanes: Lanes) -> Program:
    """What runs all lanes."""
    if isinstance(trainer, Trainer):
        return Compiled(trainer, lanes)
    hyper = {name: jnp.asarray(values) for name, values in lanes.hyper.items()}
    return trainer.program(lanes.seeds, lanes.keys(), hyper)


def check_room(like: Any) -> None:
    """Raises if a state could not be held by all devices together, however empty they are."""
    needed = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(like))
    devices = jax.devices()
    stats = devices[0].memory_stats() or {}
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    there = stats["bytes_limit"] * len(devices) if "bytes_limit" in stats else machine
    if needed > there:
        raise StudyError(
            f"The state of all seeds takes {needed / 1e9:,.1f} GB, more than the "
            f"{there / 1e9:,.1f} GB there are: use fewer seeds, environments or units, or a "
            "smaller replay (capacity)."
        )


def _ready(function: Any, options: dict[str, Any], *args: Any) -> jax.stages.Compiled:
    """A function compiled for such arguments with more options, unless it is compiled already."""
    done = isinstance(function, jax.stages.Compiled)
    return function if done else function.lower(*args).compile(options)


def tidy(lanes: Lanes, rows: Mapping[str, Any]) -> Columns:
    """{column: [lanes, rows]} as one row per lane and time."""
    arrays = {name: np.asarray(values) for name, values in rows.items()}
    count, length = arrays["step"].shape
    columns: Columns = {"seed": np.repeat(np.asarray(lanes.seeds, np.int64), length)}
    columns |= {f"hyper_{k}": np.repeat(np.asarray(v), length) for k, v in lanes.hyper.items()}
    assert count == len(lanes.seeds)
    return columns | {name: values.reshape(-1) for name, values in arrays.items()}
