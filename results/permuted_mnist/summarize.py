"""Makes the tables and the figure of this folder from the folders of the studies.

    python results/permuted_mnist/summarize.py runs/permuted_mnist runs/redo runs/regrama

The first may be `-`, to be left out. The others are those of older thresholds: their methods take
the place of what `thresholds.csv` has of them. It needs the extras `studies` and `figures`.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from continual_learning.analysis import load
from continual_learning.analysis.style import colors

HERE = Path(__file__).parent
METHODS = colors(("adam", "cpr", "cbp", "redo", "regrama", "shrink_perturb"))
BLOCK = 20  # tasks
UNITS = 256
UPDATES = 7500  # of a task
EVERY = 1000  # updates between two resets
WINDOW = 9  # tasks
ACCURACIES = ["test_accuracy", "online_accuracy"]
OTHERS = ["dormant_ratio", "srank", "effective_rank", "parameter_norm"]


def by_task(metrics: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of every task, one row per method and task; of accuracies also the range."""
    groups = metrics.groupby(["method", "task"])
    columns = {}
    for name in ACCURACIES:
        columns |= {name: groups[name].mean()}
        columns |= {f"{name}_{end}": groups[name].agg(end) for end in ("min", "max")}
    return pd.DataFrame(columns | {name: groups[name].mean() for name in OTHERS}).reset_index()


def by_block(metrics: pd.DataFrame) -> pd.DataFrame:
    """Mean over the tasks of a block, one row per method, seed and block."""
    blocks = metrics.assign(first_task=metrics.task // BLOCK * BLOCK)
    names = [*ACCURACIES, *OTHERS]
    return blocks.groupby(["method", "seed", "first_task"])[names].mean().reset_index()


def with_older_thresholds(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the same, and the units reset until then."""
    blocks = metrics.assign(first_task=metrics.task // BLOCK * BLOCK)
    reset = blocks.groupby(["method", "seed", "first_task"]).units_reset.max()
    return by_block(blocks).merge(reset.reset_index())


def share_reset(older: pd.DataFrame) -> pd.Series:
    """Return which share of the hidden units a reset takes, by method and seed."""
    runs = older.groupby(["method", "seed"])
    updates = (runs.first_task.max() + BLOCK) * UPDATES
    return runs.units_reset.max() / ((updates // EVERY - 1) * UNITS)  # none before the first update


def table(blocks: pd.DataFrame, measure: str, methods: Iterable[str] = METHODS) -> str:
    """First and last block and all tasks, in percent: mean over seeds (lowest to highest seed)."""
    wide = blocks.pivot(index=["method", "seed"], columns="first_task", values=measure) * 100
    first, last = wide[wide.columns[0]], wide[wide.columns[-1]]
    parts = {"first 20": first, "last 20": last, "last − first": last - first}
    parts["all 200"] = wide.mean(axis=1)
    lines = ["| method | " + " | ".join(parts) + " |", "| --- " * (len(parts) + 1) + "|"]
    for method in methods:
        seeds = (values[method] for values in parts.values())
        cells = (f"{s.mean():.2f} ({s.min():.2f} to {s.max():.2f})" for s in seeds)
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines).replace("-", "−").replace("−−−", "---")


def figure(curves: pd.DataFrame) -> Any:
    """Accuracies and dormant units over the tasks: means over seeds and a window of tasks."""
    names = [*ACCURACIES, "dormant_ratio"]
    smooth = curves.groupby("method")[names].rolling(WINDOW, center=True, min_periods=1).mean()
    rows = curves[["method", "task"]].join(smooth.droplevel("method").round(4))
    data = alt.Data(values=rows.to_dict("records"))
    color = alt.Color(
        "method:N", title=None, scale=alt.Scale(domain=[*METHODS], range=[*METHODS.values()])
    )
    panels = []
    for name, title, domain in (
        ("test_accuracy", "test accuracy after the task", [0.93, 0.965]),
        ("online_accuracy", "accuracy on batches before their update", [0.86, 0.945]),
        ("dormant_ratio", "dormant hidden units", [0, 0.7]),
    ):
        chart = alt.Chart(data, width=290, height=260).mark_line(strokeWidth=1.8)
        x = alt.X("task:Q", axis=alt.Axis(grid=False))
        scale, axis = alt.Scale(domain=domain), alt.Axis(format="~%", tickCount=6)
        y = alt.Y(f"{name}:Q", title=title, scale=scale, axis=axis)
        panels.append(chart.encode(x=x, y=y, color=color))
    return (
        alt.hconcat(*panels)
        .properties(padding=12, background="white")
        .configure_axis(titleFontWeight="normal", titlePadding=8)
        .configure_legend(orient="top", labelFontSize=13, symbolStrokeWidth=4)
        .configure_view(stroke=None)
    )


def main(study: str, *older: str) -> None:
    """Write the files and print the tables of the README."""
    if study != "-":
        published(Path(study))
    if older:
        file = HERE / "thresholds.csv"
        found, before = with_older_thresholds(load(older)), pd.read_csv(file)
        blocks = pd.concat([before[~before.method.isin(found.method)], found])
        blocks = blocks.sort_values("method", kind="stable")
        blocks.to_csv(file, index=False, float_format="%.6g")
        print("\n\n".join(table(blocks, name, blocks.method.unique()) for name in ACCURACIES))
        print(share_reset(blocks).groupby("method").agg(["min", "mean", "max"]))


def published(folder: Path) -> None:
    """Write the files of the published values and print their tables."""
    metrics = load(folder)
    curves, blocks = by_task(metrics), by_block(metrics)
    curves.to_csv(HERE / "curves.csv", index=False, float_format="%.5g")
    blocks.to_csv(HERE / "blocks.csv", index=False, float_format="%.6g")
    figure(curves).save(HERE / "curves.svg")
    print("\n\n".join(table(blocks, name) for name in ACCURACIES))


if __name__ == "__main__":
    main(*sys.argv[1:])
