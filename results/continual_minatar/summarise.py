"""Makes the table and the data of this folder from the folders of the study, a method each or all.

    python results/continual_minatar/summarise.py runs/minatar_adam runs/minatar_cpr

It needs the extra `studies`.
"""

import sys
from pathlib import Path

import pandas as pd

from continual_learning.analysis import load
from continual_learning.experiments import registry

HERE = Path(__file__).parent
BIN = 60_000  # steps, five rows
GAMES = registry.get("continual_minatar").games
EVALUATIONS = [f"eval_{game}" for game in GAMES]
MEASURES = ["latest_return", *EVALUATIONS, "dormant_ratio", "linearised_ratio", "srank", "entropy"]
LAST = 0.1  # of a task


def curves(metrics: pd.DataFrame) -> pd.DataFrame:
    """Means over the rows of a bin, a row per method, seed and bin."""
    binned = metrics.assign(until=-(-metrics.step // BIN) * BIN)
    keys = ["method", "seed", "task", "until"]
    return binned.groupby(keys, sort=False)[MEASURES].mean().reset_index()


def cell(seeds: pd.Series) -> str:
    """Mean over seeds (lowest to highest)."""
    return f"{seeds.mean():.1f} ({seeds.min():.1f} to {seeds.max():.1f})"


def table(metrics: pd.DataFrame) -> str:
    """Returns in the last tenth of each game: in training, and evaluated on all games so far."""
    lines = ["| method | game | training | " + " | ".join(EVALUATIONS) + " | dormant, % |"]
    lines.append("| --- " * (len(EVALUATIONS) + 4) + "|")
    steps = registry.get("continual_minatar").steps / len(GAMES)
    late = metrics[metrics.step > (metrics.task + 1 - LAST) * steps]
    for (method, task), part in late.groupby(["method", "task"], sort=False):
        seeds = part.groupby("seed")[MEASURES].mean()
        seen = [cell(seeds[name]) for name in EVALUATIONS[: task + 1]]
        seen += ["–"] * (len(EVALUATIONS) - len(seen))
        cells = [method, GAMES[task], cell(seeds.latest_return), *seen]
        lines.append(
            " | ".join(["| " + cells[0], *cells[1:], cell(100 * seeds.dormant_ratio)]) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    """Writes the data, prints the table."""
    metrics = pd.concat([load(folder) for folder in sys.argv[1:]], ignore_index=True)
    curves(metrics).to_csv(HERE / "curves.csv", index=False, float_format="%.4g")
    print(table(metrics))


if __name__ == "__main__":
    main()
