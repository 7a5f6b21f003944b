"""Makes the figure and the table of this folder from its data.

    python results/slippery_ant_as_released/summarise.py

It needs the extras `studies` and `figures`.
"""

from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from continual_learning.analysis.style import COLOURS, name

HERE = Path(__file__).parent
OURS = ("latest_return", "episode_return")
THEIRS = {"adam": "adam", "ccbp": "cpr"}
"""{method in the authors' data: ours}; CPR was called CCBP then."""
FAINT = "#8a8a8a"


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
            mine = base.mark_line(color=COLOURS[method], strokeWidth=1.2, opacity=0.8).encode(
                x=x, y=alt.Y(f"{metric}:Q", title="return"), detail="seed:N"
            )
            paper = alt.Chart(
                alt.Data(values=theirs[theirs.method == method].to_dict("records"))
            ).mark_line(color=FAINT, strokeWidth=2.5)
            row.append((paper.encode(x=x, y="iqm:Q") + mine).properties(width=360, height=150))
        panels.append(alt.hconcat(*row))
    return alt.vconcat(*panels).configure_view(stroke=None)


if __name__ == "__main__":
    figure().save(HERE / "curves.svg")
    print(table(ours()))
