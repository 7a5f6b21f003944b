"""Folders of studies with numbers that are known, written as a run writes them.

`write` takes the numbers; `robots` makes up those of a study of a robot, `arms` of MetaWorld,
`digits` of a supervised one, for whoever needs a study that looks like one.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from continual_learning.studies import registry
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study

METHODS = ("adam", "cpr", "cbp", "redo", "regrama", "shrink_perturb")
"""Those of the paper."""

ENVIRONMENT = {"continual_learning": "0.1.0", "commit": None, "device": "none: made up"}

Columns = Mapping[str, Any]


def write(
    path: Path,
    experiment: Experiment,
    columns: Callable[[str, int], Columns],
    *,
    steps: Sequence[int] | np.ndarray,
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (0, 1, 2),
    state: Callable[[str], Any] | None = None,
) -> Path:
    """Writes a study whose methods have one part each; all lanes of a seed have the same numbers.

    Args:
      path: the new folder.
      experiment: what was run, as far as study.toml says.
      columns: (method, seed) -> {column: [points], or [fewer] for a seed that is not so far}.
      steps: [points], of the rows.
      methods: those that were run.
      seeds: likewise.
      state: (method) -> the state of its checkpoint, [lanes, …]; None for no checkpoints.
    """
    steps = np.asarray(steps, np.int64)
    task_steps = getattr(experiment, "steps_per_task", int(steps[-1]))
    study = Study(experiment, list(methods), list(seeds))
    with Store.create(path, study.to_dict(), ENVIRONMENT) as store:
        for method in methods:
            rows: dict[str, list[Any]] = {}
            for lane, seed in enumerate(study.seeds):
                values = columns(method, seed)
                count = min((len(column) for column in values.values()), default=0)
                index = {
                    "seed": np.full(count, seed),
                    "step": steps[:count],
                    "task": (steps[:count] - 1) // task_steps,
                }
                hyper = {f"hyper_{k}": np.full(count, v[lane]) for k, v in study.arrays().items()}
                for name, column in {**index, **hyper, **values}.items():
                    rows.setdefault(name, []).append(np.asarray(column)[:count])
            store.write_part(method, 0, {name: np.concatenate(c) for name, c in rows.items()})
            if state is not None:
                store.save(method, 0, state(method))
    return path


def robots(
    path: Path,
    experiment: str | Experiment = "slippery_ant",
    *,
    methods: Sequence[str] = METHODS,
    seeds: int = 15,
    per_task: int = 10,
    until: float = 1.0,
    **changes: Any,
) -> Path:
    """A study of a robot with the budget of the paper, `per_task` rows a task instead of 102.

    Adam climbs, declines and collapses, CPR climbs and stays, the others are between them.

    Args:
      path: the new folder.
      experiment: its name, or itself.
      methods: those that were run.
      seeds: how many.
      per_task: rows of a task.
      until: share of the rows that are there.
      **changes: of the experiment, such as tasks=2 or **{"cpr.max_reset": 0.05}.
    """
    chosen = _experiment(experiment).override(**changes)
    steps = (np.arange(chosen.tasks * per_task) + 1) * chosen.steps_per_task // per_task
    count = max(1, round(until * len(steps)))
    quality = {"cpr": 1.0, "cbp": 0.7, "regrama": 0.55, "redo": 0.5, "shrink_perturb": 0.4}
    top = 5500.0 if chosen.name.startswith("slippery_humanoid") else 8000.0

    def columns(method: str, seed: int) -> dict[str, np.ndarray]:
        draw = np.random.default_rng([crc32(f"{chosen.name} {method} {changes}".encode()), seed])
        x, within = np.arange(len(steps)) / len(steps), np.arange(len(steps)) % per_task
        # The same tasks for all methods.
        tasks = np.random.default_rng(seed).uniform(np.log(0.02), np.log(2.0), chosen.tasks)
        friction = np.exp(np.repeat(tasks, per_task))
        good = quality.get(method, 0.0) * (1 - 0.3 * draw.uniform())
        plateau = top * (0.8 + 0.2 * good) * (1 - np.exp(-x / 0.05))
        fall = (1 - good) * top * 1.3 / (1 + np.exp(-(x - 0.5 - 0.2 * good) / 0.05))
        dip = 0.35 * top * np.exp(-within / 1.5) * (x > 0)
        noise = draw.normal(0, 0.03 * top, (2, len(steps)))
        returns = np.maximum(plateau - fall - dip + noise[0], -2000.0)
        dormant = np.clip(0.05 + (1 - good) * 0.5 * x + noise[1] / top / 3, 0, 1)
        gradient = 0.4 + (1 - good) * x * np.exp(draw.normal(0, 0.5, len(steps)))
        found = {
            "friction": friction,
            "episode_return": returns,
            "episode_length": np.full(len(steps), 1000.0),
            "reward": returns / 1000,
            "policy_gradient_norm": gradient,
            "value_gradient_norm": 3 * gradient,
            "policy_parameter_norm": 20 + 60 * (1 - good) * x,
            "value_parameter_norm": 60 + 200 * (1 - good) * x,
            "policy_units_reset": 1000 * quality.get(method, 0.0) * x,
            "value_units_reset": 3000 * quality.get(method, 0.0) * x,
            "dormant_ratio": dormant,
            "linearized_ratio": np.clip(0.3 - 0.5 * dormant, 0, 1),
            "srank": np.where(within == per_task - 1, 100 - 40 * dormant, np.nan),
        }
        return {name: values[:count].astype(np.float32) for name, values in found.items()}

    return write(path, chosen, columns, steps=steps, methods=methods, seeds=range(seeds))


def arms(
    path: Path,
    experiment: str | Experiment = "continual_metaworld",
    *,
    methods: Sequence[str] = METHODS,
    seeds: int = 5,
    per_task: int = 10,
    **changes: Any,
) -> Path:
    """A study of MetaWorld, `per_task` rows a task, an evaluation in each.

    Methods with resets learn every task well, others the later ones less; all forget what they have
    learned, the more the longer ago.
    """
    chosen = _experiment(experiment).override(**changes)
    points = chosen.tasks * per_task
    steps = (np.arange(points) + 1) * chosen.steps_per_task // per_task
    names = [name.replace("-", "_") for name in dict.fromkeys(chosen.task_names)]

    def columns(method: str, seed: int) -> dict[str, np.ndarray]:
        draw = np.random.default_rng(
            [crc32(f"{tuple(chosen.value('sequence'))} {method}".encode()), seed]
        )
        task, within = np.divmod(np.arange(points), per_task)
        top = 1 - 0.05 * task * (method in ("adam", "muon"))
        success = np.clip(top * (within + 1) / per_task + draw.normal(0, 0.03, points), 0, 1)
        found = {"success": success, "success_ever": np.sqrt(success)}
        learned = success[per_task - 1 :: per_task]
        for i, name in enumerate(names):
            age = np.maximum(task - i, 0)
            solved = np.where(task == i, success, learned[i] * 0.5**age)
            found[f"eval_{name}_success"] = np.where(task >= i, solved, np.nan)
        seen = np.nanmean([found[f"eval_{name}_success"] for name in names], axis=0)
        found["eval_seen_success"] = seen
        returns = {c.replace("_success", ""): 4000 * v for c, v in found.items() if "eval" in c}
        found |= {"latest_return": 4000 * success, "episode_return": 4000 * success, **returns}
        return {name: values.astype(np.float32) for name, values in found.items()}

    return write(path, chosen, columns, steps=steps, methods=methods, seeds=range(seeds))


def digits(
    path: Path,
    experiment: str | Experiment = "permuted_mnist",
    *,
    methods: Sequence[str] = METHODS,
    seeds: int = 5,
    **changes: Any,
) -> Path:
    """A supervised study, a row a task: Adam declines, the others do so more slowly."""
    chosen = _experiment(experiment).override(rows_per_task=1, **changes)
    steps = (np.arange(chosen.tasks) + 1) * chosen.steps_per_task

    def columns(method: str, seed: int) -> dict[str, np.ndarray]:
        draw = np.random.default_rng([crc32(method.encode()), seed])
        x = np.arange(len(steps)) / len(steps)
        loss = (0.03 if method == "adam" else 0.005) * x + draw.normal(0, 0.001, len(steps))
        found = {
            "online_accuracy": 0.93 - 2 * loss,
            "test_accuracy": 0.96 - loss,
            "dormant_ratio": np.clip(0.1 + 15 * loss, 0, 1),
            "parameter_norm": 30 + 1e4 * loss,
        }
        return {name: values.astype(np.float32) for name, values in found.items()}

    return write(path, chosen, columns, steps=steps, methods=methods, seeds=range(seeds))


def _experiment(name: str | Experiment) -> Any:
    return registry.get(name) if isinstance(name, str) else name
