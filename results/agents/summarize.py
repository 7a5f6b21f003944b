"""Makes the data, the table and the figure of this folder from the folders of studies.

    python results/agents/summarize.py "PPO, CartPole"=runs/cartpole "SAC, ant"=runs/ant

Studies that are not given keep what curves.csv has of them. It needs the extras `studies` and
`figures`.
"""

import sys
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from continual_learning.analysis import load
from continual_learning.analysis.style import colors, name

HERE = Path(__file__).parent
METHODS = colors(("adam", "cpr"))
POINTS = 60
"""Bins of a curve at most; a bin never holds rows of two tasks."""


def curves(study: str, folder: str) -> pd.DataFrame:
    """Return the mean return of each bin, one row per method, seed and bin."""
    rows = load(folder)
    first = rows[(rows.method == rows.method[0]) & (rows.seed == rows.seed[0])]
    per_task = first.groupby("task").size().max()
    share = -(-len(first) // POINTS)
    width = next(n for n in range(share, per_task + 1) if per_task % n == 0)
    place = rows.groupby(["method", "seed", "task"]).cumcount() // width
    bins = rows.groupby(["method", "seed", "task", place])
    found = bins.agg(step=("step", "max"), latest_return=("latest_return", "mean")).reset_index()
    return found.drop(columns="level_3").assign(study=study)


def table(rows: pd.DataFrame) -> str:
    """Return the first and the last bin of every task as Markdown: mean and range of the seeds."""
    lines = ["| study | method | task | first bin | last bin |", "| --- | --- | --- | --- | --- |"]
    for (study, method, task), part in rows.groupby(["study", "method", "task"], sort=False):
        seeds = part.groupby("seed").latest_return
        cells = []
        for ends in (seeds.first(), seeds.last()):
            cells.append(f"{ends.mean():.0f} ({ends.min():.0f} to {ends.max():.0f})")
        lines.append(f"| {study} | {name(method)} | {task + 1} | {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(rows: pd.DataFrame) -> Any:
    """Return a panel for each study: mean and range of the seeds over the steps."""
    panels, scale = [], alt.Scale(domain=[*map(name, METHODS)], range=[*METHODS.values()])
    for study, part in rows.groupby("study", sort=False):
        ends = part.groupby(["method", "step"]).latest_return.agg(["mean", "min", "max"])
        data = ends.reset_index().assign(method=lambda x: x.method.map(name)).round(3)
        base = alt.Chart(alt.Data(values=data.to_dict("records"))).encode(
            x=alt.X("step:Q", title="steps of a seed", axis=alt.Axis(format="~s", tickCount=5)),
            color=alt.Color("method:N", title=None, scale=scale),
        )
        line = base.mark_line().encode(y=alt.Y("mean:Q", title="return"))
        band = base.mark_area(opacity=0.15, line=False).encode(y="min:Q", y2="max:Q")
        panels.append((band + line).properties(width=260, height=200, title=study))
    return alt.hconcat(*panels).properties(background="white").configure_view(stroke=None)


def main(*studies: str) -> None:
    """Write curves.csv and curves.svg, and print the table."""
    file = HERE / "curves.csv"
    rows = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["study"])
    for each in studies:
        study, folder = each.split("=", 1)
        found = curves(study, folder)
        rows = pd.concat([rows[rows.study != study], found]) if len(rows) else found
    columns = ["study", "method", "seed", "task", "step", "latest_return"]
    rows[columns].to_csv(file, index=False, float_format="%.5g")
    rows = pd.read_csv(file)
    figure(rows).save(HERE / "curves.svg")
    print(table(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
