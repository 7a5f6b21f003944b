"""Records the official games for test_recorded.py; needs the extra `oracle`.

python -m tests.envs.minatar.record
"""

from pathlib import Path

import jax
import numpy as np

from continual_learning.envs.minatar import GAMES

FOLDER = Path(__file__).with_name("recorded")
# Policy, steps, share of episodes that start further on, steps after which one is cut.
PLAYS = (("greedy", 400, 0.5, 100), ("shooting", 1000, 1.0, 40), ("stubborn", 400, 0.3, 200))


def write(name):
    """One record after the other, as {"before.x": array}."""
    from tests.envs.minatar.official import play

    records = [
        play(name, policy, steps, seed, varied=varied, length=length)
        for seed, (policy, steps, varied, length) in enumerate(PLAYS)
    ]
    record = jax.tree.map(lambda *parts: np.concatenate(parts), *records)
    arrays = {}
    for part, value in record.items():
        fields = value._asdict() if hasattr(value, "_asdict") else {"": value}
        arrays |= {f"{part}.{field}": array for field, array in fields.items()}
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)


def read(name):
    """The record of a game."""
    game, record = GAMES[name], {}
    with np.load(FOLDER / f"{name}.npz") as arrays:
        kinds = {"before": game.State, "after": game.State, "draws": game.Draws}
        for part, kind in kinds.items():
            record[part] = kind(*(arrays[f"{part}.{field}"] for field in kind._fields))
        for part in ("action", "observation", "reward", "over", "first"):
            record[part] = arrays[f"{part}."]
    return record


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in GAMES:
        write(name)
