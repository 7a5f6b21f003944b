"""Several processes, on one machine or on many, that run the lanes of one study together.

All of them run the same program, each on its own devices (`jax.distributed`). The first one has the
folder; the others are told what is in it. With one process, everything here does nothing.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from continual_learning.schema.errors import StudyError
from continual_learning.studies.store.checkpoint import key_impl
from continual_learning.studies.store.store import Store


class OtherProcessError(StudyError):
    """The first process failed, so that this one cannot go on."""


def join(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Makes this process one of several; before the first array is made.

    Args:
      coordinator: HOST:PORT of the first process, where the others find it.
      processes: how many there are.
      process: which one this is, from 0. What is None is read from the environment, as SLURM and
        Open MPI set it.
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(coordinator, processes, process)
    except (RuntimeError, ValueError) as error:
        raise StudyError(
            f"The processes could not find one another ({error}). Within a SLURM step "
            "(`srun`) --distributed needs no values; elsewhere write `--distributed "
            "coordinator=HOST:PORT processes=N process=I`."
        ) from error


def several() -> bool:
    """Whether there are others."""
    return jax.process_count() > 1


def first() -> bool:
    """Whether this is the process that has the folder."""
    return jax.process_index() == 0


def agree(flag: bool) -> bool:
    """Whether any process says so; all must ask."""
    if not several():
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray([flag]))))


def put(tree: Any, sharding: jax.sharding.Sharding) -> Any:
    """Arrays that every process has, on the devices of all of them."""
    if not several():
        return jax.device_put(tree, sharding)

    def spread(x: Any) -> jax.Array:
        data = np.asarray(x)
        return jax.make_array_from_callback(data.shape, sharding, lambda index: data[index])

    return _on_data(spread, tree)


def gather(tree: Any) -> Any:
    """Arrays that are spread over the devices of all processes, whole and on every host."""
    if not several():
        return tree
    return _on_data(lambda data: multihost_utils.process_allgather(data, tiled=True), tree)


def tell(find: Callable[[], Any]) -> Any:
    """What the first process finds, plain data; if it fails, all do."""
    return find() if not several() else json.loads(_tell(lambda: json.dumps(find()).encode()))


class Shared:
    """A `Store` for several processes: the first one has it, all must call the same methods.

    Args:
      make: what the first process calls.
    """

    def __init__(self, make: Callable[[], Store]):
        self._store: Any = None

        def find() -> Any:
            self._store = make()
            return [str(self._store.path), self._store.study]

        path, self.study = tell(find)
        self.path = Path(path)

    def write_part(self, method: str, chunk: int, columns: Mapping[str, np.ndarray]) -> None:
        """As of a store."""
        tell(lambda: self._store.write_part(method, chunk, columns))

    def read_part(self, method: str, chunk: int) -> dict[str, np.ndarray]:
        """As of a store."""

        def find() -> bytes:
            file = io.BytesIO()
            np.savez(file, **self._store.read_part(method, chunk))
            return file.getvalue()

        with np.load(io.BytesIO(_tell(find)), allow_pickle=False) as arrays:
            return dict(arrays)

    def save(
        self, method: str, chunk: int, state: Any, lanes: int | None = None, ring: str | None = None
    ) -> None:
        """As of a store."""
        state = gather(state)
        tell(lambda: self._store.save(method, chunk, state, lanes, ring))

    def restore(self, method: str, like: Any) -> tuple[int, Any] | None:
        """As of a store."""
        found: Any = None

        def find() -> int | None:
            nonlocal found
            found = self._store.restore(method, like)
            return None if found is None else found[0]

        chunk = tell(find)
        if chunk is None:
            return None
        state = found[1] if first() else jax.tree.map(_zeros, like)
        return chunk, _on_data(multihost_utils.broadcast_one_to_all, state)

    def progress(self) -> dict[str, int]:
        """As of a store."""
        return tell(lambda: self._store.progress())

    def log(self, line: str) -> None:
        """As of a store."""
        tell(lambda: self._store.log(line))

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()


AnyStore = Store | Shared


def open_store(make: Callable[[], Store]) -> AnyStore:
    """The store that the first process makes, for all of them."""
    return Shared(make) if several() else make()


def _tell(find: Callable[[], bytes]) -> bytes:
    """What the first process finds; the first byte says whether it is an error."""
    content, failure = b"", None
    if first():
        try:
            content = b"+" + find()
        except Exception as error:
            content, failure = b"-" + str(error).encode(), error
    length = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
    data = np.frombuffer(content, np.uint8) if first() else np.zeros(length, np.uint8)
    told = np.asarray(multihost_utils.broadcast_one_to_all(data)).tobytes()
    if failure is not None:
        raise failure
    if told.startswith(b"-"):
        raise OtherProcessError(f"The first process failed: {told[1:].decode()}")
    return told[1:]


def _on_data(move: Callable[[Any], Any], tree: Any) -> Any:
    """`move` of every array; of keys, which are moved as numbers."""

    def moved(x: Any) -> Any:
        if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return move(x)
        return jax.random.wrap_key_data(move(jax.random.key_data(x)), impl=key_impl(x))

    return jax.tree.map(moved, tree)


def _zeros(like: Any) -> Any:
    if not jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return np.zeros(like.shape, like.dtype)
    data = jax.eval_shape(jax.random.key_data, like)
    return jax.random.wrap_key_data(jnp.zeros(data.shape, data.dtype), impl=key_impl(like))
