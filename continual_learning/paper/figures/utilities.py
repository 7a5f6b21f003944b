"""Figures of units' utilities: the shapes of CPR's reset, and the distribution of utilities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from continual_learning.analysis import style
from continual_learning.paper.artifacts import METHODS, Artifact
from continual_learning.paper.figures import theme
from continual_learning.paper.figures.theme import alt
from continual_learning.paper.histograms import BIN_WIDTH, utilities
from continual_learning.paper.remarks import million
from continual_learning.paper.runs import read
from continual_learning.schema.errors import StudyError

SHARPNESS = 16.0  # as in the paper's comparison of shapes
COLORS = {"sigmoid": "#0072B2", "exp": "#D55E00", "softplus": "#009E73", "linear": "#CC79A7"}


def shapes(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw φ(u) of every shape, from u = 0.9 to 1.4 times the mean utility of a layer."""
    from continual_learning.optim.shapes import SHAPES, phi

    utility = np.round(np.linspace(0.9, 1.4, 201), 6)
    rows = []
    for shape in SHAPES:
        height = np.asarray(phi(shape, utility, SHARPNESS, 1.0))  # pyright: ignore
        rows += theme.records(shape=[shape] * len(utility), utility=utility, phi=height)
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line()
        .encode(
            x=alt.X(
                "utility:Q",
                title="utility u of a unit, relative to the mean of its layer",
                scale=alt.Scale(domain=[0.9, 1.4], nice=False),
                axis=alt.Axis(grid=False, tickCount=6),
            ),
            y=alt.Y("phi:Q", title="φ(u) = reset / ρ", axis=alt.Axis(tickCount=5)),
            color=theme.scale(COLORS, "shape"),
        )
        .properties(width=theme.WIDTH - theme.AXIS, height=theme.HEIGHT)
    )
    return theme.Drawn(chart, [f"Sharpness κ = {SHARPNESS:g}, center 1; φ(u) = 1 for all u ≤ 1."])


def distribution(artifact: Artifact, folders: Sequence[str | Path]) -> theme.Drawn:
    """Draw the utilities of all units in all updates, for each method with a checkpoint."""
    rows, seen = [], {}
    for folder in read(artifact, folders):
        for method in folder.methods:
            found = utilities(folder.path, method)
            if found is not None:
                if method in seen:
                    raise StudyError(f"{method} is in several of the folders: name one of them.")
                seen[method] = found
    if not seen:
        raise StudyError(
            f"{artifact.id} needs the histograms in a study's checkpoints, and there are none: "
            "they were deleted, or no method has written one yet."
        )
    shown = [method for method in dict.fromkeys((*METHODS, *seen)) if method in seen]
    for method in shown:
        counts = seen[method].counts / max(seen[method].counts.sum(), 1)
        edges = np.arange(len(counts) + 1) * BIN_WIDTH
        names = [theme.label(method)] * len(edges)
        rows += theme.records(method=names, utility=edges, share=np.append(counts, counts[-1]))
    x = alt.X(
        "utility:Q",
        title="utility of a unit, relative to the mean of its layer",
        scale=alt.Scale(domain=[0, BIN_WIDTH * 40], nice=False),
        axis=alt.Axis(grid=False, tickCount=8),
    )
    y = alt.Y(
        "share:Q", title="share of units and updates", axis=alt.Axis(format="~%", tickCount=5)
    )
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after")
        .encode(x=x, y=y, color=theme.by_method(shown))
        .properties(width=theme.WIDTH - theme.AXIS, height=theme.HEIGHT)
    )
    sizes = ", ".join(
        f"{style.name(m)} {seen[m].seeds} seeds and {million(seen[m].updates)} updates"
        for m in shown
    )
    notes = [
        "Mean |gradient| of a unit's incoming weights relative to that of its layer, both "
        f"networks: {sizes}.",
        f"Bins of {BIN_WIDTH:g}; the last one holds all larger utilities.",
    ]
    return theme.Drawn(chart, notes)
