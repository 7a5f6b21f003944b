"""Makes the tables and the figure of this folder from the folder of the study.

    python results/slippery_ant/summarize.py runs/slippery_ant
    python results/slippery_ant/summarize.py --as-released runs/released

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
METHODS = colors(("adam", "cpr"))
CHUNK = 6  # iterations
WINDOW = 3  # chunks, at the end of a task
MEANS = [
    "reward",
    "dormant_ratio",
    "linearized_ratio",
    "policy_gradient_norm",
    "value_gradient_norm",
    "policy_parameter_norm",
    "value_parameter_norm",
    "entropy",
]
LAST = ["effective_rank", "policy_units_reset", "value_units_reset"]


def by_chunk(metrics: pd.DataFrame) -> pd.DataFrame:
    """Six iterations a row: means, episodes by their number, and what is measured at the end."""
    first = metrics.groupby(["method", "seed"]).cumcount() // CHUNK
    sums = {f"{n}_sum": metrics[n] * metrics.episodes_ended for n in ("episode_return",)}
    sums["episode_length_sum"] = metrics.episode_length * metrics.episodes_ended
    groups = metrics.assign(chunk=first, **sums).groupby(["method", "seed", "chunk"])
    found = {n: groups[n].last() for n in ("task", "friction", "step", *LAST)}
    found |= {n: groups[n].mean() for n in MEANS}
    ended = groups.episodes_ended.sum()
    found |= {n: groups[f"{n}_sum"].sum() / ended for n in ("episode_return", "episode_length")}
    found |= {"episodes_ended": ended, "diverged": groups.diverged.sum()}
    return pd.DataFrame(found).reset_index().drop(columns="chunk")


def ends(chunks: pd.DataFrame) -> pd.DataFrame:
    """Means over the last chunks of every task, a row per method, seed and task."""
    groups = chunks.groupby(["method", "seed", "task"])
    last = groups.cumcount(ascending=False) < WINDOW
    return chunks[last].groupby(["method", "seed", "task"]).mean(numeric_only=True).reset_index()


def table(chunks: pd.DataFrame) -> str:
    """Reward per step at the end of each task: friction, Adam and CPR of every seed."""
    wide = ends(chunks).pivot(index=["seed", "task"], columns="method", values=["reward"])["reward"]
    friction = ends(chunks).groupby(["seed", "task"]).friction.first()
    tasks = sorted(chunks.task.unique())
    lines = ["| seed | " + " | ".join(f"task {t + 1}" for t in tasks) + " |"]
    lines.append("| --- " * (len(tasks) + 1) + "|")
    for seed in sorted(chunks.seed.unique()):
        cells = (
            f"μ {friction[seed, t]:.3f}: {wide['adam'][seed, t]:.2f}, {wide['cpr'][seed, t]:.2f}"
            for t in tasks
        )
        lines.append(f"| {seed} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figure(chunks: pd.DataFrame) -> Any:
    """Each seed's rewards over the steps, with its frictions, and the size of the weights."""
    columns = ["method", "seed", "task", "friction", "step", "reward", "policy_parameter_norm"]
    rows = chunks[columns].round(4).assign(method=chunks.method.map(name))
    rows["step"] = rows.step / 1e6
    color = alt.Color(
        "method:N",
        title=None,
        scale=alt.Scale(domain=list(map(name, METHODS)), range=[*METHODS.values()]),
    )
    x = alt.X(
        "step:Q",
        title="environment steps (millions)",
        axis=alt.Axis(grid=False),
        scale=alt.Scale(nice=False),
    )
    starts = rows[rows.method == name("adam")].groupby(["seed", "task"], as_index=False).first()
    starts["label"] = "μ " + starts.friction.round(2).astype(str)
    panels = []
    for seed in sorted(rows.seed.unique()):
        of = rows[rows.seed == seed]
        lines = (
            alt.Chart(alt.Data(values=of.to_dict("records")), width=760, height=110)
            .mark_line(strokeWidth=2)
            .encode(x=x, y=alt.Y("reward:Q", title=f"reward, seed {seed}"), color=color)
        )
        marks = alt.Chart(alt.Data(values=starts[starts.seed == seed].to_dict("records")))
        rule = marks.mark_rule(color="#999", strokeDash=[3, 3]).encode(x="step:Q")
        text = marks.mark_text(align="left", dx=4, y=8, color="#555").encode(
            x="step:Q", text="label:N"
        )
        panels.append(lines + rule + text)
    return alt.vconcat(*panels).configure_view(stroke=None).configure_legend(orient="top")


def released(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return a row per seed and iteration of a study whose friction does not act."""
    columns = ["seed", "step", "latest_return", "episode_return", "episode_length", "reward"]
    found = metrics[columns].copy()
    found[columns[2:]] = found[columns[2:]].map(lambda x: float(f"{x:.5g}"))
    return found


def main() -> None:
    """Write curves.csv and curves.svg and print the table, or write as_released.csv."""
    *options, folder = sys.argv[1:]
    if options == ["--as-released"]:
        released(load(folder)).to_csv(HERE / "as_released.csv", index=False)
        return
    chunks = by_chunk(load(folder))
    numbers = chunks.select_dtypes("float").columns
    chunks[numbers] = chunks[numbers].map(lambda x: float(f"{x:.5g}"))
    chunks.to_csv(HERE / "curves.csv", index=False)
    figure(chunks).save(HERE / "curves.svg")
    print(table(chunks))


if __name__ == "__main__":
    main()
