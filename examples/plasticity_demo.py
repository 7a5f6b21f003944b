"""Adam loses plasticity and reset methods keep it: a small study, in three minutes on two cores.

The experiment is `random_labels` (`continual show random_labels`): 200 real 8×8 images of digits
get random labels, which a network has 336 steps to memorize; then 200 others do, 60 times. The
tasks are equally hard, so a network that keeps its plasticity does as well on the last one as on
the first. Nothing tells the optimizer when a task begins. All methods have the same network,
learning rate, initial weights, labels and batches.

What is shown, after each task, for every seed (thin) and their mean (thick):
  left: the share of the 200 labels that the network recalls (guessing gives 10 %);
  right: the share of hidden units that are dormant, that is, whose mean activation over the images
    is below a tenth of their layer's average.

Run it with `make demo` or `python examples/plasticity_demo.py`; it needs the extra `demo`. The
folder is that of any study: `continual status demo/study` reads it. At the end comes the report of
the study (`continual report demo/study`), a page with all curves and tables, for a browser.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from continual_learning import report
from continual_learning.analysis import load
from continual_learning.analysis.style import colors
from continual_learning.studies import launch, prefetch, registry

METHODS = colors(("adam", "cpr", "cbp", "redo", "regrama"))
WINDOW = 5  # tasks that "first" and "last" are the means of


def study(folder: Path, seeds: int, tasks: int | None) -> pd.DataFrame:
    """Run the study, or go on with it; its metrics."""
    if (folder / "study.toml").exists():
        code = launch.resume(folder)
    else:
        experiment = registry.get("random_labels")
        if tasks is not None:
            experiment = experiment.override(tasks=tasks)
        code = launch.run(experiment, list(METHODS), list(range(seeds)), folder)
    if code != 0:
        prefetch.leave(code)  # at once, though the next method may be compiling
        raise SystemExit(code)
    return load(folder)


def table(metrics: pd.DataFrame) -> pd.DataFrame:
    """Per method: the first and the last tasks, means over seeds, and the spread of the seeds."""
    last = metrics.task.max()
    parts = {
        "first": metrics[metrics.task < WINDOW],
        "last": metrics[metrics.task > last - WINDOW],
    }
    by_seed = {
        when: rows.groupby(["method", "seed"])[["train_accuracy", "dormant_ratio"]].mean()
        for when, rows in parts.items()
    }
    columns = {}
    for measure, name in (("train_accuracy", "recalled"), ("dormant_ratio", "dormant")):
        for when, rows in by_seed.items():
            columns[f"{name}, {when}"] = rows[measure].groupby("method").mean()
    ends = by_seed["last"]["train_accuracy"].groupby("method")
    columns["recalled, last: worst seed"] = ends.min()
    columns["best seed"] = ends.max()
    return pd.DataFrame(columns).loc[[m for m in METHODS if m in set(metrics.method)]]


def panel(rows: alt.Data, measure: str, title: str) -> Any:
    """One measure over the tasks: a thin line for each seed and a thick one for their mean."""
    color = alt.Color(
        "method:N",
        title=None,
        scale=alt.Scale(domain=list(METHODS), range=list(METHODS.values())),
    )
    share = {"title": title, "axis": alt.Axis(format="%", tickCount=5)}
    base = alt.Chart(rows, width=390, height=290).encode(
        x=alt.X("task:Q", axis=alt.Axis(grid=False), scale=alt.Scale(nice=False, zero=False)),
        color=color,
    )
    seeds = base.mark_line(strokeWidth=0.8, opacity=0.4).encode(
        y=alt.Y(f"{measure}:Q", scale=alt.Scale(domain=[0, 1]), **share), detail="seed:N"
    )
    return seeds + base.mark_line(strokeWidth=3).encode(y=alt.Y(f"mean({measure}):Q", **share))


def figure(metrics: pd.DataFrame) -> Any:
    """Both panels under a title that states what was found."""
    found = table(metrics)
    adam = f"{found['recalled, first']['adam']:.0%} to {found['recalled, last']['adam']:.0%}"
    seeds, tasks = metrics.seed.nunique(), metrics.task.nunique()
    title = alt.TitleParams(
        f"Memorizing random labels, task after task: Adam falls from {adam} recalled",
        subtitle=f"{seeds} seeds (thin), their mean (thick), {tasks} tasks.",
    )
    rows = metrics.assign(task=metrics.task + 1)[
        ["method", "seed", "task", "train_accuracy", "dormant_ratio"]
    ]
    data = alt.Data(values=rows.to_dict("records"))
    recalled = panel(data, "train_accuracy", "labels recalled at the end of the task")
    dormant = panel(data, "dormant_ratio", "dormant hidden units")
    return (
        (recalled | dormant)
        .properties(title=title, padding=16, background="white")
        .configure_title(fontSize=17, subtitleFontSize=13, subtitleColor="#555", offset=14)
        .configure_axis(
            labelFontSize=12, titleFontSize=13, titleFontWeight="normal", titlePadding=10
        )
        .configure_legend(
            orient="top", labelFontSize=14, symbolStrokeWidth=4, symbolSize=300, symbolOpacity=1
        )
        .configure_view(stroke=None)
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the study, print its table, write its picture and its report."""
    parser = argparse.ArgumentParser(description="Adam loses plasticity, reset methods keep it.")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tasks", type=int, help="fewer than the experiment has")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of all that is left")
    args = parser.parse_args(argv)

    metrics = study(args.out / "study", args.seeds, args.tasks)
    found = table(metrics)
    found.to_csv(args.out / "plasticity.csv", float_format="%.4f")
    print(found.map("{:.0%}".format).to_string())
    chart = figure(metrics)
    for suffix, options in ((".png", {"scale_factor": 2}), (".svg", {})):
        chart.save(args.out / f"plasticity{suffix}", **options)
    print(f"{args.out}/plasticity.png, .svg and .csv; the study is in {args.out / 'study'}")
    page = args.out / "report.html"
    report.write([args.out / "study"], page, f"continual report {args.out / 'study'} -o {page}")
    print(f"Open the report in a browser: {page.resolve()}")


if __name__ == "__main__":
    main()
