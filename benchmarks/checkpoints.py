"""Seconds and bytes of a checkpoint of a full replay, inside it and beside it.

Observations of 1,000 zeros and ones, as in MinAtar; `--new` transitions between two checkpoints.

    python benchmarks/checkpoints.py --capacity 1000000 --seeds 1 --new 60000
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.sac.replay import Replay
from continual_learning.studies.store.store import Store

METRICS = {name: np.zeros(0, int) for name in ("seed", "step", "task")}


def full(replay: Replay, seeds: int) -> Any:
    """Return a state [seeds, …] that is nothing but a full replay."""

    def fill(key: jax.Array) -> Any:
        state = replay.start(jax.ShapeDtypeStruct((), jnp.int32))
        seen = jax.random.bits(key, state.rows.observation.shape, jnp.uint8)
        rows = state.rows._replace(observation=seen, reached=~seen)
        return state._replace(rows=rows, added=jnp.int32(replay.capacity))

    keys = jax.random.split(jax.random.key(0), seeds)
    return {"replay": jax.block_until_ready(jax.jit(jax.vmap(fill))(keys))}


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(state: Any, new: int, rounds: int, ring: str | None) -> None:
    """Print what the first checkpoint and those after it take, and restoring."""
    replay, seconds, written = state["replay"], [], []
    with tempfile.TemporaryDirectory() as folder, Store.create(folder, {}, {}) as store:
        checkpoints = Path(folder) / "checkpoints" / "sac"
        for chunk in range(1 + rounds):
            store.write_part("sac", chunk, METRICS)
            began = time.perf_counter()
            # That rows are the same as before makes no difference here.
            now = {"replay": replay._replace(added=replay.added + chunk * new)}
            store.save("sac", chunk, now, ring=ring)
            seconds.append(time.perf_counter() - began)
            written.append(sum(map(size, checkpoints.glob(f"{chunk:06d}*"))))
        began = time.perf_counter()
        store.restore("sac", state)
        restoring = time.perf_counter() - began
        later = seconds[1:]
        print(
            f"{'beside' if ring else 'inside'}: "
            f"the first {seconds[0]:.2f} s, {written[0] / 1e6:.1f} MB; "
            f"others {statistics.median(later):.2f} s ({min(later):.2f} to {max(later):.2f}), "
            f"{written[-1] / 1e6:.1f} MB; restored in {restoring:.2f} s; "
            f"{size(checkpoints) / 1e6:.0f} MB on the disk"
        )


def main() -> None:
    """Measures both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--new", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(jax.devices()[0].device_kind, platform.machine(), "JAX", jax.__version__)
    state = full(Replay(args.capacity, 1000, binary=True), args.seeds)
    for ring in (None, "replay"):
        measure(state, args.new, args.rounds, ring)


if __name__ == "__main__":
    main()
