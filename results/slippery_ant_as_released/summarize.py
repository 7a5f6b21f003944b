"""Makes the figures and the tables of this folder from its data.

    python results/slippery_ant_as_released/summarize.py

It needs the extras `studies` and `figures`.
"""

from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from continual_learning.analysis import curves as curves_of
from continual_learning.analysis.style import colors, name
from continual_learning.analysis.summary import as_published
from continual_learning.analysis.summary import ours as of_seeds
from continual_learning.paper.numbers import results
from continual_learning.paper.tables.table import measured
from continual_learning.paper.tables.writers import shown
from continual_learning.studies import registry

HERE = Path(__file__).parent
OURS = ("latest_return", "episode_return")
THEIRS = {"adam": "adam", "ccbp": "cpr"}
"""{method in the authors' data: ours}; CPR was called CCBP then."""
FAINT = "#8a8a8a"
LONG = 300e6  # steps; seeds that went on for longer stand beside the paper's table
STATISTICS = ("average", "final", "peak")
NETWORKS = {
    "dormant_ratio": "dormant units, both networks",
    "linearized_ratio": "linearized units, both networks",
    "policy_gradient_norm": "gradient norm, policy",
    "value_gradient_norm": "gradient norm, value",
    "policy_parameter_norm": "parameter norm, policy",
    "value_parameter_norm": "parameter norm, value",
}


def ours() -> pd.DataFrame:
    """Return our curves: bins of 2M steps of every seed."""
    return pd.read_csv(HERE / "curves.csv")


def published() -> pd.DataFrame:
    """Return the authors' curves of the methods that ours are of: IQM over seeds, bins of 2M."""
    found = pd.read_csv(HERE / "published.csv")
    return found.assign(method=found.algorithm.map(THEIRS)).dropna(subset="method")


def ends(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the peak, the last bin and its step of every seed."""
    rows = []
    for (method, seed), each in curves.groupby(["method", "seed"]):
        last = each.iloc[-1]
        rows.append(
            {
                "method": method,
                "seed": seed,
                "steps": int(last.bin_end),
                "peak": each.latest_return.max(),
                "last": last.latest_return,
                "peak_episode_return": each.episode_return.max(),
                "last_episode_return": last.episode_return,
                "deepest_fall": (each.latest_return.cummax() - each.latest_return).max(),
                "dormant_value": last.value_dormant_ratio,
                "norm_value": last.value_parameter_norm,
            }
        )
    return pd.DataFrame(rows)


def table(curves: pd.DataFrame) -> str:
    """Return the ends as Markdown."""
    lines = [
        "| method, seed | steps | `latest_return`: peak | last | `episode_return`: peak | last | "
        "dormant units, value network | norm, value network |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in ends(curves).itertuples():
        lines.append(
            f"| {name(str(row.method))}, {row.seed} | {row.steps / 1e6:.0f}M | {row.peak:,.0f} | "
            f"{row.last:,.0f} | {row.peak_episode_return:,.0f} | {row.last_episode_return:,.0f} | "
            f"{row.dormant_value:.0%} | {row.norm_value:.0f} |"
        )
    return "\n".join(lines)


def beside_paper(curves: pd.DataFrame) -> str:
    """Return the paper's row of Adam and ours, as the table `ant_iqr` has them, as Markdown."""
    last = curves.groupby(["method", "seed"]).bin_end.transform("max")
    task = (curves.bin_end - 1) // registry.get("slippery_ant").steps_per_task
    frame = curves.assign(step=curves.bin_end, task=task)[last > LONG]
    paper = results("slippery_ant")["rows"]["adam"]
    printed = (f"{v} +{up} −{down}".replace("-", "−") for v, up, down in map(paper.get, STATISTICS))
    lines = ["| source | average | final | peak |", "| --- | --- | --- | --- |"]
    lines.append(f"| paper, 15 seeds, 400M steps | {' | '.join(printed)} |")
    for metric in OURS:
        found = curves_of.curves(frame, metric, expected=int(frame.step.max()))["adam"]
        for source, summary, form in (
            ("as published", as_published(found), "errors"),
            ("IQM of seeds", of_seeds(found), "interval"),
        ):
            cells = (shown(measured(getattr(summary, each), form, 0)) for each in STATISTICS)
            lines.append(f"| `{metric}`, {source} | {' | '.join(cells)} |")
    return "\n".join(lines)


def networks() -> Any:
    """Return dormant and linearized units and the norms of both networks, a line for each seed."""
    rows = ours().assign(step=lambda x: x.bin_end / 1e6, method=lambda x: x.method.map(name))
    color = alt.Color(
        "method:N",
        title=None,
        scale=alt.Scale(
            domain=[name(each) for each in ("adam", "cpr")],
            range=list(colors(("adam", "cpr")).values()),
        ),
    )
    panels = []
    for metric, title in NETWORKS.items():
        kept = rows[["method", "seed", "step", metric]].dropna()
        share = metric.endswith("ratio")
        y = alt.Y(
            f"{metric}:Q",
            title=None,
            scale=alt.Scale(type="linear" if share else "log", nice=False),
            axis=alt.Axis(format="~%" if share else "~g", tickCount=4),
        )
        x = alt.X("step:Q", title="environment steps (millions)", axis=alt.Axis(grid=False))
        base = alt.Chart(alt.Data(values=kept.to_dict("records")), title=title)
        lines = base.mark_line(strokeWidth=1.2, opacity=0.8)
        drawn = lines.encode(x=x, y=y, color=color, detail="seed:N")
        panels.append(drawn.properties(width=320, height=130))
    return alt.concat(*panels, columns=2).configure_view(stroke=None)


def figure() -> Any:
    """Return both returns of every seed of ours, with the authors' curve in each panel."""
    theirs = published()
    theirs = theirs.assign(step=theirs.million_steps)[["method", "step", "iqm"]]
    panels = []
    for metric in OURS:
        row = []
        for method in ("adam", "cpr"):
            lines = ours()[lambda x, m=method: x.method == m]
            lines = lines.assign(step=lines.bin_end / 1e6)[["seed", "step", metric]]
            x = alt.X(
                "step:Q",
                title="environment steps (millions)",
                scale=alt.Scale(domain=[0, 400], nice=False),
                axis=alt.Axis(grid=False),
            )
            title = f"{name(method)}: {metric}"
            base = alt.Chart(alt.Data(values=lines.to_dict("records")), title=title)
            mine = base.mark_line(
                color=colors((method,))[method], strokeWidth=1.2, opacity=0.8
            ).encode(x=x, y=alt.Y(f"{metric}:Q", title="return"), detail="seed:N")
            paper = alt.Chart(
                alt.Data(values=theirs[theirs.method == method].to_dict("records"))
            ).mark_line(color=FAINT, strokeWidth=2.5)
            row.append((paper.encode(x=x, y="iqm:Q") + mine).properties(width=360, height=150))
        panels.append(alt.hconcat(*row))
    return alt.vconcat(*panels).configure_view(stroke=None)


if __name__ == "__main__":
    figure().save(HERE / "curves.svg")
    networks().save(HERE / "networks.svg")
    print(table(ours()), beside_paper(ours()), sep="\n\n")
