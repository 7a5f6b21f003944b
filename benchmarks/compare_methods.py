"""Tunes every method with six settings on a stream of tasks, and runs the best of them.

    python benchmarks/compare_methods.py random_labels runs/labels
    python benchmarks/compare_methods.py random_labels runs/labels --table labels.csv

The first command may be stopped and given again. The second writes a row per method, seed and
task, and prints the table. Settings are chosen by the last task of seeds 1000 and up; the reported
seeds begin at 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from continual_learning import load, sweeps
from continual_learning.optim import registry as methods
from continual_learning.studies import launch, registry, spec
from continual_learning.studies.options import RunOptions

SETTINGS = 6
"""The settings that every method gets."""
RATES = (3e-4, 1e-3, 3e-3)
ALL_RATES = (1e-4, 3e-4, 5e-4, 1e-3, 2e-3, 5e-3)
OFTEN = (100, 1000)
SHRINK = (1e-5, 1e-4, 1e-3)
STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
WINDOW = 5
"""The tasks that "first" and "last" are the means of."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A method, or a kind of network with Adam, and its settings.

    Attributes:
      title: its name in the table.
      grid: {name: values} of `SETTINGS` combinations.
      method: the name of the method.
      fields: fields of the experiment and fixed options of the method.
    """

    title: str
    grid: Mapping[str, Sequence[Any]]
    method: str = "adam"
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def of(method: str, grid: Mapping[str, Sequence[Any]], **options: Any) -> Candidate:
    """Return the candidate of a reset method with these options."""
    fields = {f"{method}.{name}": value for name, value in options.items()}
    return Candidate(methods.registered()[method].label, grid, method, fields)


NORMS = {"layer_norm": True}
CANDIDATES = {
    "adam": Candidate("Adam", {"learning_rate": ALL_RATES}),
    "layer_norm": Candidate("Adam, LayerNorm", {"learning_rate": ALL_RATES}, fields=NORMS),
    "crelu": Candidate("Adam, CReLU", {"learning_rate": ALL_RATES}, fields={"activation": "crelu"}),
    "cpr": of("cpr", {"max_reset": (0.01, 0.03, 0.1), "every": OFTEN}),
    "cbp": of("cbp", {"replacement_rate": (1e-5, 1e-4, 1e-3), "maturity": OFTEN}),
    "redo": of("redo", {"threshold": (0.05, 0.1, 0.25), "every": OFTEN}),
    "regrama": of("regrama", {"threshold": (0.05, 0.1, 0.25), "every": OFTEN}),
    "shrink_perturb": of("shrink_perturb", {"shrink": SHRINK, "perturb": (1e-4, 1e-3)}, every=1),
    "snr": of(
        "snr",
        {"threshold_percentile": (0.9, 0.95, 0.99), "threshold": (50, 500)},
        threshold_reset_freq=1000,
    ),
    "l2_init": of("l2_init", {"strength": STRENGTHS}),
    "weight_clipping": of("weight_clipping", {"kappa": (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)}),
    "nap": Candidate("NaP, LayerNorm", {"learning_rate": ALL_RATES}, "nap", NORMS),
    "parseval": of("parseval", {"strength": (1e-4, 1e-3, 1e-2), "scale": (1.0, 2.0)}),
    "spectral": of("spectral", {"strength": STRENGTHS}),
    "upgd": of("upgd", {"sigma": (1e-4, 1e-3, 1e-2), "weight_decay": (0.0, 1e-2)}, step_size=1e-3),
    "trac": of("trac", {"s_prev": (1e-8, 1e-4), "learning_rate": RATES}),
    "layer_reset": of("layer_reset", {"layers": (1, 2), "learning_rate": RATES}),
    "full_reset": of("full_reset", {"learning_rate": ALL_RATES}),
    "fire": of("fire", {"iterations": (5, 10), "learning_rate": RATES}),
    "dash": of("dash", {"lam": (0.1, 0.3, 0.6), "steps": (1, 6)}),
}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("stream", help="an experiment")
    parser.add_argument("out", type=Path, help="a folder for sweeps and studies")
    parser.add_argument("--methods", nargs="+", default=[*CANDIDATES], choices=CANDIDATES)
    parser.add_argument("--scale", default="paper", help="of the reported runs")
    parser.add_argument("--sweep-scale", default="short", help="of the sweeps")
    parser.add_argument("--sweep-seeds", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--time-limit", type=float, help="in seconds, of one method's study")
    parser.add_argument("--table", type=Path, help="only read what has been run, into this file")
    args = parser.parse_args()
    if args.table:
        tabulate(args.stream, args.out, args.table)
        return
    for name in args.methods:
        tune_and_run(args, name)


def tune_and_run(args: argparse.Namespace, name: str) -> None:
    """Sweep the settings of one candidate, then run the best on the reported seeds."""
    candidate, folder = CANDIDATES[name], args.out / name
    options = RunOptions(time_limit=args.time_limit, quiet=True)
    study = folder / "best"
    if study.exists():
        launch.resume(study, options)
        return
    reported, tuned = (
        registry.get(args.stream, scale, [candidate.method]).override(**candidate.fields)
        for scale in (args.scale, args.sweep_scale)
    )
    grid = sweeps.Grid(candidate.grid)
    assert len(grid) == SETTINGS, name
    seeds = range(1000, 1000 + args.sweep_seeds)
    sweep = sweeps.Sweep(
        tuned, dataclasses.replace(reported, seeds=args.seeds), candidate.method, grid, [*seeds]
    )
    if sweeps.run(sweep, folder / "sweep", options=options) == 0:
        best = spec.load(folder / "sweep" / "best.toml")
        launch.run(best, [candidate.method], range(args.seeds), study, options)


def tabulate(stream: str, out: Path, file: Path) -> None:
    """Write a row for every method, seed and task into a file, and print a table."""
    found = [name for name in CANDIDATES if (out / name / "best" / "study.toml").exists()]
    metric = registry.get(stream).headline
    parts = []
    for name in found:
        rows = load(out / name / "best")
        last = rows.groupby(["seed", "task"])[metric].mean().reset_index()
        parts.append(last.assign(method=name))
    frame = pd.concat(parts)[["method", "seed", "task", metric]]
    frame.round(5).to_csv(file, index=False)
    print(table(frame, metric))


def table(frame: pd.DataFrame, metric: str) -> str:
    """Return the first and the last tasks of every method, best at the end first, as Markdown."""
    lines = []
    tasks = frame.task.max() + 1
    for name, mine in frame.groupby("method"):
        by_seed = [
            mine[keep].groupby("seed")[metric].mean()
            for keep in (mine.task < WINDOW, mine.task >= tasks - WINDOW, mine.task >= 0)
        ]
        cells = [f"{x.mean():.1%} ({x.min():.1%} to {x.max():.1%})" for x in by_seed]
        lines.append(
            (by_seed[1].mean(), f"| {CANDIDATES[str(name)].title} | {' | '.join(cells)} |")
        )
    head = f"| method | first {WINDOW} tasks | last {WINDOW} tasks | all tasks |"
    rows = [line for _, line in sorted(lines, reverse=True)]
    return "\n".join(itertools.chain([head, "| --- | --- | --- | --- |"], rows))


if __name__ == "__main__":
    main()
