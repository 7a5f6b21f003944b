"""Tables of made-up studies whose every number is known."""

import numpy as np
import pandas as pd


def table(method="cpr", seeds=(0, 1), steps=range(100, 700, 100), per_task=300, **columns):
    """Rows of a method, seed by seed; metrics are functions of (seed, step) or values."""
    seed, step = (x.ravel() for x in np.meshgrid(list(seeds), list(steps), indexing="ij"))
    rows = {"method": method, "seed": seed, "step": step, "task": (step - 1) // per_task}
    columns = columns or {"value": lambda seed, step: step + 1000.0 * seed}
    made = {name: f(seed, step) if callable(f) else f for name, f in columns.items()}
    return pd.DataFrame(rows | made)


def tables(*each, **studies):
    """Tables put together; by name, they are studies."""
    frames = [*each, *(frame.assign(study=name) for name, frame in studies.items())]
    return pd.concat(frames, ignore_index=True)
