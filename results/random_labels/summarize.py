"""Makes the data, the table and the figure of this folder from the folder of the study.

    python results/random_labels/summarize.py runs/labels

It needs the extras `studies` and `figures`.
"""

import sys
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from continual_learning.analysis import load
from continual_learning.analysis.style import colors, name

HERE = Path(__file__).parent
METHODS = colors(("adam", "cpr", "cbp", "redo", "regrama", "shrink_perturb"))
WINDOW = 5
"""Tasks that "first" and "last" are the means of."""


def by_task(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return a row per method, seed and task, at the end of the task."""
    last = metrics.groupby(["method", "seed", "task"]).tail(1)
    return last[["method", "seed", "task", "train_accuracy", "dormant_ratio", "units_reset"]]


def table(rows: pd.DataFrame) -> str:
    """Return accuracies of the first and last tasks as Markdown: mean and range of the seeds."""
    tasks = rows.task.max() + 1
    lines = [f"| method | first {WINDOW} tasks | last {WINDOW} tasks |", "| --- | --- | --- |"]
    for method in METHODS:
        mine, cells = rows[rows.method == method], []
        for part in (mine[mine.task < WINDOW], mine[mine.task >= tasks - WINDOW]):
            seeds = part.groupby("seed").train_accuracy.mean()
            cells.append(f"{seeds.mean():.1%} ({seeds.min():.1%} to {seeds.max():.1%})")
        lines.append(f"| {name(method)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(rows: pd.DataFrame) -> Any:
    """Return the accuracy of every method over the tasks: mean and range of the seeds."""
    of_task = rows.groupby(["method", "task"]).train_accuracy.agg(["mean", "min", "max"])
    data = of_task.reset_index().assign(
        method=lambda x: x.method.map(name), task=lambda x: x.task + 1
    )
    order = list(map(name, METHODS))
    base = alt.Chart(alt.Data(values=data.round(4).to_dict("records"))).encode(
        x=alt.X("task:Q", title="task", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False)),
        color=alt.Color(
            "method:N",
            title=None,
            sort=order,
            scale=alt.Scale(domain=order, range=[*METHODS.values()]),
        ),
    )
    axis = alt.Axis(format="~%", tickCount=5)
    scale = alt.Scale(domain=[0.4, 1], nice=False, clamp=True)
    lines = base.mark_line(strokeWidth=2.5).encode(
        y=alt.Y("mean:Q", title="labels memorized", axis=axis, scale=scale)
    )
    bands = base.mark_area(opacity=0.12, line=False).encode(
        y=alt.Y("min:Q", title="labels memorized", scale=scale), y2="max:Q"
    )
    title = alt.TitleParams(
        "Memorizing new random labels, task after task",
        subtitle="A small network, 200 images; mean and range of three seeds",
        anchor="start",
        fontSize=18,
        subtitleFontSize=13,
        subtitleColor="#555",
    )
    return (
        (bands + lines)
        .properties(
            width=640,
            height=300,
            title=title,
            background="white",
            # Room for the legend where a browser's font is wider than the one measured with.
            padding={"left": 5, "top": 5, "bottom": 5, "right": 35},
        )
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=13, titleFontSize=14, titleFontWeight="normal")
        .configure_legend(
            orient="right",
            labelFontSize=14,
            symbolType="stroke",
            symbolStrokeWidth=3,
            symbolOpacity=1,
        )
    )


def main() -> None:
    """Write curves.csv and curves.svg, and print the table."""
    if len(sys.argv) > 1:
        by_task(load(sys.argv[1])).round(5).to_csv(HERE / "curves.csv", index=False)
    rows = pd.read_csv(HERE / "curves.csv")
    figure(rows).save(HERE / "curves.svg")
    print(table(rows))


if __name__ == "__main__":
    main()
