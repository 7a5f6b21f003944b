"""Makes the tables and the data of this folder from the folder of the study.

    python results/permuted_mnist_shape_kappa/summarize.py runs/shape_kappa

It needs the extra `studies`.
"""

import sys
from pathlib import Path

import pandas as pd

from continual_learning.analysis import load
from continual_learning.optim.shapes import SHAPES

HERE = Path(__file__).parent
BLOCK = 20  # tasks
ACCURACIES = ["test_accuracy", "online_accuracy"]


def by_block(metrics: pd.DataFrame) -> pd.DataFrame:
    """Means over the tasks of a block, a row per shape, κ, seed and block; whole blocks only."""
    named = metrics.assign(
        shape=metrics.hyper_shape.map(dict(enumerate(SHAPES))),
        sharpness=metrics.hyper_sharpness,
        first_task=metrics.task // BLOCK * BLOCK,
    )
    groups = named.groupby(["shape", "sharpness", "seed", "first_task"], sort=False)
    return groups[ACCURACIES].mean()[groups.size() == BLOCK].reset_index()


def table(blocks: pd.DataFrame, measure: str, last: bool) -> str:
    """κ by shape, in percent, of the last block or of all: mean over seeds (lowest to highest)."""
    chosen = blocks[blocks.first_task == blocks.first_task.max()] if last else blocks
    seeds = chosen.groupby(["sharpness", "shape", "seed"])[measure].mean() * 100
    lines = ["| κ | " + " | ".join(SHAPES) + " |", "| --- " * (len(SHAPES) + 1) + "|"]
    for sharpness in sorted(blocks.sharpness.unique()):
        found = (seeds[sharpness, shape] for shape in SHAPES)
        cells = (f"{s.mean():.2f} ({s.min():.2f} to {s.max():.2f})" for s in found)
        lines.append(f"| {sharpness:g} | ".replace("inf", "∞") + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the data, print the tables."""
    blocks = by_block(load(sys.argv[1]))
    blocks.to_csv(HERE / "blocks.csv", index=False, float_format="%.5f")
    for last in (False, True):
        print(table(blocks, "test_accuracy", last), end="\n\n")
    print(table(blocks, "online_accuracy", last=False))


if __name__ == "__main__":
    main()
