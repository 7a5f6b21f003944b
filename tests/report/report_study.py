"""A study like SlipperyAnt's, of random numbers; as a program, it writes one to look at.

python -m tests.report.report_study FOLDER
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from continual_learning.studies import registry, spec
from continual_learning.studies.store.store import Store

# How often a seed falls for good, and what share of units is dormant in the end.
FALLS = {"adam": (0.9, 0.6), "cpr": (0.0, 0.05), "cbp": (0.3, 0.15), "redo": (0.4, 0.3)}
ENVIRONMENT = {"continual_learning": "0.1.0", "commit": None, "device": "none", "packages": {}}


def ant(tasks: int = 20, iterations: int = 102, seeds: int = 15, **changes: Any):
    """The experiment."""
    experiment = registry.get("slippery_ant").override(tasks=tasks, seeds=seeds)
    return experiment.override(
        iterations_per_task=iterations, iterations_per_chunk=iterations, **changes
    )


def columns(experiment: Any, method: str, seed: int) -> dict[str, np.ndarray]:
    """All rows of a seed: {column: [rows]}."""
    rng = np.random.default_rng([seed, *method.encode()])
    friction = np.exp(np.random.default_rng(seed).uniform(*np.log([0.02, 2]), experiment.tasks))
    rows = experiment.value("iterations_per_task")
    total = experiment.tasks * rows
    task, within = np.divmod(np.arange(total), rows)
    done = np.arange(1, total + 1) / total
    falls, dormant = FALLS.get(method, (0.2, 0.2))
    peak = 6500 + 1500 * np.log10(friction / 0.2)[task] + 2500 * min(1.0, 1.2 - 0.8 * falls)
    level = peak * (1 - np.exp(-6 * (within + 1) / rows)) * (1 - np.exp(-8 * done))
    fallen = done > (rng.uniform(0.45, 0.8) if rng.uniform() < falls else 2)
    level = np.where(fallen, -1500.0, level)
    returns = level + 350 * rng.standard_normal(total)
    returns[within == 0] -= 1500
    share = np.clip(dormant * done + 0.02 * rng.standard_normal(total), 0, 1)
    last = within % max(1, rows // 6) == 0
    rank = np.where(last, 60 * (1 - share) + rng.standard_normal(total), np.nan)

    def noisy(scale: float) -> np.ndarray:
        return scale * np.exp(0.3 * rng.standard_normal(total))

    return {
        "seed": np.full(total, seed),
        "step": np.arange(1, total + 1) * experiment.steps_per_task // rows,
        "task": task,
        "friction": friction[task].astype(np.float32),
        "gravity": np.ones(total, np.float32),
        "episode_return": returns.astype(np.float32),
        "episode_length": np.clip(1000 - noisy(100), 0, 1000).astype(np.float32),
        "reward": (returns / 1000).astype(np.float32),
        "diverged": np.zeros(total, np.float32),
        "policy_loss": (-noisy(0.01)).astype(np.float32),
        "value_loss": noisy(30).astype(np.float32),
        "entropy": (8 - 4 * done + 0.1 * rng.standard_normal(total)).astype(np.float32),
        "kl": noisy(0.01).astype(np.float32),
        "clip_fraction": np.clip(noisy(0.1), 0, 1).astype(np.float32),
        "explained_variance": np.clip(1 - noisy(0.1), -1, 1).astype(np.float32),
        "policy_gradient_norm": (noisy(0.5) * np.where(fallen, 400, 1)).astype(np.float32),
        "value_gradient_norm": noisy(20).astype(np.float32),
        "policy_parameter_norm": (20 + 60 * dormant * done).astype(np.float32),
        "value_parameter_norm": (60 + 90 * dormant * done).astype(np.float32),
        "policy_units_reset": np.cumsum(rng.poisson(0.2, total)).astype(np.float32),
        "value_units_reset": np.cumsum(rng.poisson(0.4, total)).astype(np.float32),
        "dormant_ratio": share.astype(np.float32),
        "policy_dormant_ratio": (0.8 * share).astype(np.float32),
        "value_dormant_ratio": np.clip(1.2 * share, 0, 1).astype(np.float32),
        "linearized_ratio": (0.5 * share).astype(np.float32),
        "low_variance_ratio": (0.7 * share).astype(np.float32),
        "srank": rank.astype(np.float32),
        "effective_rank": (0.8 * rank).astype(np.float32),
    }


def write(
    folder: Path | str,
    experiment: Any = None,
    methods: tuple[str, ...] = tuple(FALLS),
    seeds: tuple[int, ...] | None = None,
    until: dict[str, float] | None = None,
    environment: Any = ENVIRONMENT,
    **changes: Any,
) -> Path:
    """Writes a study.

    Args:
      folder: a new folder.
      experiment: an `Experiment` on a robot; left out, a small one.
      methods: those that are run.
      seeds: those that are run; left out, as many as the experiment has.
      until: {method: share of its rows that is there}, where it is not whole.
      environment: the content of environment.json.
      changes: fields of study.toml's experiment table that are other than the spec's.
    """
    experiment = experiment or ant(tasks=6, iterations=12, seeds=3)
    seeds = tuple(range(experiment.seeds)) if seeds is None else seeds
    table = {**spec.to_dict(experiment), **changes}
    study = {"experiment": table, "methods": list(methods), "seeds": list(seeds)}
    with Store.create(folder, study, environment) as store:
        for method in methods:
            rows = _rows(experiment, method, seeds, 0.0, (until or {}).get(method, 1.0))
            if len(rows["step"]):
                store.write_part(method, 0, rows)
    return Path(folder)


def finish(folder: Path, experiment: Any, method: str, begun: float) -> None:
    """Writes the rows of a method that are not there yet: from the share `begun` on."""
    with Store.open(folder) as made:
        rows = _rows(experiment, method, made.study["seeds"], begun, 1.0)
        made.write_part(method, 1, rows)


def _rows(experiment: Any, method: str, seeds: Any, begin: float, end: float) -> dict[str, Any]:
    """The rows of all seeds between two shares of the run."""
    of_seeds = [columns(experiment, method, seed) for seed in seeds]
    part = slice(*(round(share * len(of_seeds[0]["step"])) for share in (begin, end)))
    return {n: np.concatenate([each[n][part] for each in of_seeds]) for n in of_seeds[0]}


def store(folder: Path | str, experiment: Any, methods: dict[str, dict[str, Any]]) -> Path:
    """Writes a study of given rows.

    Args:
      folder: a new folder.
      experiment: the table in study.toml.
      methods: {method: {column: [rows]}}; all seeds that occur are those of the study.
    """
    seeds = sorted({int(seed) for columns in methods.values() for seed in columns["seed"]})
    study = {"experiment": experiment, "methods": list(methods), "seeds": seeds}
    with Store.create(folder, study, ENVIRONMENT) as made:
        for method, columns in methods.items():
            made.write_part(method, 0, {k: np.asarray(v) for k, v in columns.items()})
    return Path(folder)


if __name__ == "__main__":
    write(sys.argv[1], ant(), tuple(FALLS), until={"redo": 0.7})
