"""A study whose every state and row is known; as a program, it runs until it is killed.

python toy_study.py FOLDER CHUNKS METHOD
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from continual_learning.analysis import load
from continual_learning.studies.store.store import Store

STUDY = {"experiment": "toy", "methods": ["adam", "cpr"], "lr": 1e-3, "ppo": {"epochs": 4}}
ENVIRONMENT = {"jax": "0.0", "commit": None}
LANES = 3
ROWS = 4  # per lane and chunk


def state_after(chunk: int) -> dict:
    """What a program that adds up chunks has in every lane."""
    total = np.arange(LANES, dtype=np.int64) + chunk * (chunk + 1) // 2
    noise = np.random.default_rng(chunk).normal(size=(LANES, 50, 40)).astype(np.float32)
    return {"total": total, "net": {"w": noise, "b": noise[:, 0]}, "chunk": chunk}


def ring_after(chunk: int) -> dict:
    """Lane i has added i + 5 rows in every chunk, and clears every third one before adding."""
    capacity, lanes = 12, np.arange(LANES)
    added = (chunk + 1) * (lanes + 5)
    cleared = chunk // 3 * 3 * (lanes + 5)
    # The number of the latest row in each place.
    at = added[:, None] - 1 - (added[:, None] - 1 - np.arange(capacity)) % capacity
    live = at >= np.maximum(cleared, added - capacity)[:, None]
    rows = {"x": np.where(live, np.sin(at), 0.0), "number": np.where(live, at, 0)}
    return {"rows": rows, "added": added, "cleared": cleared}


def state_of(method: str, chunk: int) -> dict:
    """The state of a method: that of "sac" has a ring."""
    return state_after(chunk) | ({"replay": ring_after(chunk)} if method == "sac" else {})


def rows_of(chunk: int, lanes: int = LANES) -> dict[str, np.ndarray]:
    step = np.tile(chunk * ROWS + np.arange(ROWS), lanes)
    seed = np.repeat(np.arange(lanes), ROWS)
    return {"seed": seed, "step": step, "task": step // 10, "accuracy": np.sin(step + 100.0 * seed)}


def table_of(methods: dict[str, int]) -> pd.DataFrame:
    """What `load` shows, given the number of chunks of every method."""
    frames = [
        pd.DataFrame({"method": method, **rows_of(chunk)})
        for method, chunks in methods.items()
        for chunk in range(chunks)
    ]
    return pd.concat(frames).sort_values(["method", "seed", "step"], ignore_index=True)


def train(store: Store, method: str, chunks: int) -> None:
    """Goes on from the newest checkpoint to `chunks` chunks."""
    restored = store.restore(method, state_of(method, 0))
    done = restored[0] + 1 if restored else 0
    ring = "replay" if method == "sac" else None
    for chunk in range(done, chunks):
        store.write_part(method, chunk, rows_of(chunk))
        store.save(method, chunk, state_of(method, chunk), ring=ring)


def names(folder: Path) -> list[str]:
    """All files, by their paths in the folder."""
    return sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())


def check_consistent(folder: Path, method: str = "cpr") -> int:
    """The newest state is that of the program, and the rows are those up to it; its chunk."""
    with Store.open(folder) as store:
        restored = store.restore(method, state_of(method, 0))
    done = -1
    if restored:
        done, state = restored
        jax.tree.map(np.testing.assert_array_equal, state, state_of(method, done))
        assert load(folder).equals(table_of({method: done + 1}))
    assert not [name for name in names(folder) if ".tmp" in name]
    assert len([*folder.glob(f"checkpoints/{method}/??????")]) <= 2
    listings = [json.loads(f.read_text()) for f in folder.glob("checkpoints/*/??????/leaves.json")]
    needed = {name for each in listings for name in each.get("ring", {}).get("segments", ())}
    assert {f.name for f in folder.glob("checkpoints/*/*.rows")} == needed
    return done


if __name__ == "__main__":
    with Store.open(sys.argv[1], STUDY) as store:
        method = sys.argv[3]
        train(store, method, store.progress().get(method, 0) + 1)
        print("writing", flush=True)
        train(store, method, int(sys.argv[2]))
