"""Makes rliable.json, the numbers of rliable that test_statistics.py compares with.

rliable needs an older pandas than we have, so it gets an environment of its own:

    python -m venv /tmp/rliable && /tmp/rliable/bin/pip install rliable==1.2.0 'pandas<3'
    /tmp/rliable/bin/python tests/analysis/make_rliable.py
"""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

OUT = Path(__file__).with_name("rliable.json")
AGGREGATES = ("iqm", "mean", "median", "optimality_gap")
REPEATS = {"aggregates": 50_000, "profile": 20_000, "improvement": 5_000}  # the last is slow


def matrices() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pairs of scores [runs, tasks]: those of rliable's own tests, and random ones."""
    rng = np.random.default_rng(0)
    steps = np.arange(5 * 16).reshape(5, 16)
    x, y = [[1, 2], [2, 2], [1, 1], [2, 1]], [[1, 1], [2, 2], [3, 3]]
    return {
        "rliable_metrics_test": (np.array(x), np.array(y)),
        "rliable_library_test": (steps, np.flip(steps, axis=0)),
        "atari_like": (rng.lognormal(0.0, 1.0, (5, 26)), rng.lognormal(0.3, 1.0, (3, 26))),
        "seeds_of_one_task": (rng.normal(0.6, 0.3, (15, 1)), rng.normal(0.5, 0.1, (15, 1))),
        "with_ties": (rng.integers(0, 4, (10, 6)), rng.integers(0, 4, (7, 6))),
        "two_runs": (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))),
    }


def aggregates(scores: np.ndarray) -> np.ndarray:
    return np.array([getattr(metrics, f"aggregate_{name}")(scores) for name in AGGREGATES])


def case(x: np.ndarray, y: np.ndarray) -> dict:
    thresholds = np.linspace(x.min() - 0.5, x.max() + 0.5, 9).round(6)
    thresholds = np.append(thresholds, x.flat[0])  # one that a score equals
    estimates = {"aggregates": (aggregates, x)}
    estimates["improvement"] = (metrics.probability_of_improvement, [x, y])
    estimates["profile"] = (lambda s: library.score_distributions(s, thresholds), x)
    found = {
        "x": x.tolist(),
        "y": y.tolist(),
        "thresholds": thresholds.tolist(),
        "average_profile": library.average_score_distributions(x, thresholds).tolist(),
    }
    for name, (function, scores) in estimates.items():
        np.random.seed(0)
        reps = REPEATS[name]
        point, interval = library.get_interval_estimates({"": scores}, function, reps=reps)
        found[name] = np.asarray(point[""]).tolist()
        found[f"{name}_interval"] = np.squeeze(interval[""]).tolist()
    return found


if __name__ == "__main__":
    packages = ("rliable", "arch", "numpy", "scipy")
    made_by = {name: importlib.metadata.version(name) for name in packages}
    cases = {name: case(*pair) for name, pair in matrices().items()}
    text = json.dumps({"made_by": made_by, "aggregates": AGGREGATES, "cases": cases})
    OUT.write_text(text + "\n")
