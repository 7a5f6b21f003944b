"""Makes the data, the figure and the table of this folder from folders of the study.

    python results/continual_minatar/summarize.py runs/minatar_adam runs/minatar_cpr
    python results/continual_minatar/summarize.py redo_every_1000=runs/minatar_redo_1000

A folder with a name before it is a method with other settings, which goes to `settings.csv` under
that name; `resets.csv` counts the units that were reset. What the files have of other methods
stays; without folders, figure and tables are made from them alone. It needs the extras `studies`
and `figures`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from continual_learning.analysis import curves as curves_of
from continual_learning.analysis import load
from continual_learning.analysis.style import colors, name
from continual_learning.analysis.summary import as_published, ours
from continual_learning.paper.numbers import results
from continual_learning.paper.tables.table import measured
from continual_learning.paper.tables.writers import shown
from continual_learning.studies import registry

HERE = Path(__file__).parent
CURVES, SETTINGS, RESETS = (HERE / f"{name}.csv" for name in ("curves", "settings", "resets"))
BIN = 60_000  # steps, five rows
LAST = 2  # bins, at the end of a game
STUDY = registry.get("continual_minatar")
TASK = STUDY.steps // STUDY.tasks  # steps
EVALUATIONS = [f"eval_{game}" for game in STUDY.task_names]
MEASURES = ["latest_return", *EVALUATIONS, "dormant_ratio", "linearized_ratio", "srank", "entropy"]
PANELS = {"latest_return": "return in training", "dormant_ratio": "dormant units"}


def curves(metrics: pd.DataFrame) -> pd.DataFrame:
    """Means over the rows of a bin, a row per method, seed and bin."""
    binned = metrics.assign(until=-(-metrics.step // BIN) * BIN)
    keys = ["method", "seed", "task", "until"]
    means = binned.groupby(keys, sort=False)[MEASURES].mean().astype(float)
    return means.reset_index()


def resets(metrics: pd.DataFrame) -> pd.DataFrame:
    """How many units of each network were reset until the end of a task, per method and seed."""
    counters = metrics.filter(like="_units_reset").columns
    counted = metrics.groupby(["method", "seed", "task"], sort=False)[[*counters]].max()
    return counted.astype(int).reset_index()


def updated(file: Path, new: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the data of a file, with these methods in place of what there was of them."""
    if new:
        rows, found = pd.read_csv(file), pd.concat(new)
        both = pd.concat([rows[~rows.method.isin(found.method)], found])
        both = both.sort_values(["method", "seed", "task"], key=_order, kind="stable")
        both.to_csv(file, index=False, float_format="%.4g")
    return pd.read_csv(file)


def last(rows: pd.DataFrame, until: int | pd.Series) -> pd.DataFrame:
    """Return the last bins until a step."""
    return rows[(rows.until <= until) & (rows.until > until - LAST * BIN)]


def ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the last bins of every game."""
    return last(rows, (rows.task + 1) * TASK)


def cell(seeds: pd.Series) -> str:
    """Mean over seeds (lowest to highest)."""
    return f"{seeds.mean():.1f} ({seeds.min():.1f} to {seeds.max():.1f})"


def table(rows: pd.DataFrame) -> str:
    """Return the returns at the end of each game, in training and evaluated on all games."""
    lines = ["| method | game | training | " + " | ".join(EVALUATIONS) + " | dormant, % |"]
    lines.append("| --- " * (len(EVALUATIONS) + 4) + "|")
    late = ends(rows).sort_values("task", kind="stable")
    for (task, method), part in late.groupby(["task", "method"], sort=False):
        seeds = part.groupby("seed")[MEASURES].mean()
        seen = [cell(seeds[name]) for name in EVALUATIONS[: task + 1]]
        seen += ["–"] * (len(EVALUATIONS) - len(seen))
        cells = [method, STUDY.task_names[task], cell(seeds.latest_return), *seen]
        lines.append("| " + " | ".join([*cells, cell(100 * seeds.dormant_ratio)]) + " |")
    return "\n".join(lines)


def comparison(rows: pd.DataFrame, evaluation: str) -> str:
    """Methods beside each other where they stand in one game."""
    lines = [f"| method | training | {evaluation} | dormant, % | rank |", "| --- " * 5 + "|"]
    for method, part in rows.groupby("method", sort=False):
        seeds = part.groupby("seed")[MEASURES].mean()
        found = [seeds.latest_return, seeds[evaluation], 100 * seeds.dormant_ratio, seeds.srank]
        lines.append("| " + " | ".join([str(method), *map(cell, found)]) + " |")
    return "\n".join(lines)


def comparisons(rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """Each other setting beside the methods as they are, as far as it ran."""
    both = pd.concat([rows, others])
    first = both[(both.task == 0) & both.method.isin(["adam", "adam_without_sticky"])]
    second = both[both.method != "adam_without_sticky"]
    second = last(second, int(others[others.method == "redo_every_1000"].until.max()))
    return [comparison(ends(first), "eval_space_invaders"), comparison(second, "eval_asterix")]


def beside_paper(rows: pd.DataFrame) -> str:
    """Return the paper's table with ours, as `continual table` makes it from the studies."""
    frame = rows.rename(columns={"until": "step"})
    frame["eval_seen"] = frame[EVALUATIONS].mean(axis=1)
    lines = ["| method | source | average | final |", "| --- " * 4 + "|"]
    training, seen = (
        curves_of.curves(frame, metric, expected=STUDY.steps)
        for metric in ("latest_return", "eval_seen")
    )
    for method, paper in results("continual_minatar")["rows"].items():
        printed = ["{} ± {}".format(*paper[each]) for each in ("average", "final")]
        lines.append(f"| {name(method)} | paper | {' | '.join(printed)} |")
        for source, summary, form in (
            ("by the paper's recipe, training returns", as_published(training[method]), "errors"),
            ("IQM of seeds with its 95 % interval", ours(training[method]), "interval"),
            ("evaluated, mean over the games met so far", as_published(seen[method]), "errors"),
        ):
            both = (shown(measured(each, form, 1)) for each in (summary.average, summary.final))
            lines.append(f"| | {source} | {' | '.join(both)} |")
    return "\n".join(lines)


def figure(rows: pd.DataFrame) -> Any:
    """Return a column per game: returns in training and units, with means and ranges of seeds."""
    drawn = colors(tuple(rows.method.unique()))
    color = alt.Color(
        "method:N",
        title=None,
        legend=alt.Legend(symbolOpacity=1),
        scale=alt.Scale(domain=list(map(name, drawn)), range=[*drawn.values()]),
    )
    upper, lower = PANELS
    below = []
    for measure, title in PANELS.items():
        beside = []
        for task, game in enumerate(STUDY.task_names):
            of = rows[rows.task == task].groupby(["method", "until"], sort=False)[measure]
            found = of.agg(["mean", "min", "max"]).round(4).reset_index()
            found["method"] = found.method.map(name)
            found["step"] = found.until / 1e6
            base = alt.Chart(alt.Data(values=found.to_dict("records")), width=230, height=170)
            x = alt.X(
                "step:Q",
                title="steps (millions)" if measure == lower else None,
                axis=alt.Axis(grid=False, tickCount=4),
                scale=alt.Scale(nice=False, zero=False),
            )
            words = title if task == 0 else None
            band = base.mark_area(opacity=0.12).encode(
                x=x, y=alt.Y("min:Q", title=words), y2="max:Q", color=color
            )
            line = base.mark_line(strokeWidth=2).encode(x=x, y="mean:Q", color=color)
            head = game.replace("_", " ").title() if measure == upper else ""
            beside.append((band + line).properties(title=head))
        below.append(alt.hconcat(*beside))
    return alt.vconcat(*below).configure_view(stroke=None).configure_legend(orient="top")


def _order(column: pd.Series) -> pd.Series:
    """Methods as the study has them, then others by their names."""
    if column.name != "method":
        return column
    return column.map([*dict.fromkeys([*STUDY.methods, *sorted(column)])].index)


def main() -> None:
    """Write the data and curves.svg, print the tables."""
    plain = [each for each in sys.argv[1:] if "=" not in each]
    named = [each.split("=", 1) for each in sys.argv[1:] if "=" in each]
    methods = [load(folder) for folder in plain]
    settings = [load(folder).assign(method=name) for name, folder in named]
    rows = updated(CURVES, list(map(curves, methods)))
    others = updated(SETTINGS, list(map(curves, settings)))
    updated(RESETS, list(map(resets, methods + settings)))
    figure(rows).save(HERE / "curves.svg")
    print("\n\n".join([table(rows), *comparisons(rows, others), beside_paper(rows)]))


if __name__ == "__main__":
    main()
