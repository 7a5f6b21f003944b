"""Makes the tables and the data of this folder from the folders of the two studies.

    python results/permuted_mnist_kappa/summarize.py runs/kappa runs/shape

It needs the extra `studies`.
"""

import sys
from pathlib import Path

import pandas as pd

from continual_learning.analysis import load
from continual_learning.optim.shapes import SHAPES

HERE = Path(__file__).parent
BLOCK = 20  # tasks
MEASURES = ["test_accuracy", "online_accuracy", "dormant_ratio", "srank", "parameter_norm"]


def by_block(metrics: pd.DataFrame, varied: str) -> pd.DataFrame:
    """Means over the tasks of a block, a row per value, seed and block."""
    named = metrics.assign(
        **{varied: metrics[f"hyper_{varied}"]}, first_task=metrics.task // BLOCK * BLOCK
    )
    return named.groupby([varied, "seed", "first_task"])[MEASURES].mean().reset_index()


def cell(seeds: pd.Series, scale: float, digits: int) -> str:
    """Mean over seeds (lowest to highest)."""
    mean, low, high = (f"{x * scale:.{digits}f}" for x in (seeds.mean(), seeds.min(), seeds.max()))
    return f"{mean} ({low} to {high})"


def table(blocks: pd.DataFrame, varied: str, symbol: str) -> str:
    """Return a row per value: accuracies in percent, and measures of the last networks."""
    lines = [
        f"| {symbol} | test accuracy | of tasks 180 to 199 | online accuracy | dormant, % | srank "
        "| norm of parameters |",
        "| --- " * 7 + "|",
    ]
    for value, part in blocks.groupby(varied):
        every = part.groupby("seed")[MEASURES].mean()
        last = part[part.first_task == part.first_task.max()].set_index("seed")
        name = list(SHAPES)[int(value)] if varied == "shape" else f"{value:g}".replace("inf", "∞")
        cells = [
            cell(every.test_accuracy, 100, 2),
            cell(last.test_accuracy, 100, 2),
            cell(every.online_accuracy, 100, 2),
            cell(last.dormant_ratio, 100, 1),
            cell(last.srank, 1, 0),
            cell(last.parameter_norm, 1, 1),
        ]
        lines.append(" | ".join([f"| {name}", *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the data, print the tables."""
    for folder, varied, symbol in zip(
        sys.argv[1:], ("sharpness", "shape"), ("κ", "φ"), strict=True
    ):
        blocks = by_block(load(folder), varied)
        blocks.to_csv(HERE / f"{varied}.csv", index=False, float_format="%.5f")
        print(table(blocks, varied, symbol), end="\n\n")


if __name__ == "__main__":
    main()
