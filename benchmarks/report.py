"""How long a large report takes and how large it is: 100 runs × 2,000 points × 40 metrics.

python benchmarks/report.py [--runs 100] [--points 2000] [--metrics 40] [--folder FOLDER]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from continual_learning import report
from continual_learning.studies.store.store import Store

METHODS = ("adam", "cpr", "cbp", "redo", "regrama")
PARTS = 20


def write(folder: Path, runs: int, points: int, metrics: int) -> None:
    """Write a study of random walks; names of metrics are such that all kinds occur."""
    seeds = np.arange(runs // len(METHODS))
    names = ["test_accuracy", "dormant_ratio", "gradient_norm", "units_reset"]
    names += [f"metric_{i}" for i in range(metrics - len(names))]
    table = {"name": "benchmark", "title": f"{runs} runs × {points} points × {metrics} metrics"}
    study = {"experiment": table, "methods": list(METHODS), "seeds": seeds.tolist()}
    rng = np.random.default_rng(0)
    with Store.create(folder, study, {}) as store:
        for method in METHODS:
            shape = (metrics, len(seeds), points)
            walks = rng.standard_normal(shape).cumsum(axis=2).astype(np.float32)
            walks[0] = 1 / (1 + np.exp(-walks[0] / 20))
            walks[1] = np.abs(np.sin(walks[1] / 50))
            walks[2] = np.exp(walks[2] / 10)
            for i, part in enumerate(np.array_split(np.arange(points), PARTS)):
                index = {
                    "seed": np.repeat(seeds, len(part)),
                    "step": np.tile((part + 1) * 1000, len(seeds)),
                    "task": np.tile(part // (points // 20), len(seeds)),
                }
                values = {n: walks[k][:, part].reshape(-1) for k, n in enumerate(names)}
                store.write_part(method, i, index | values)


def main() -> None:
    """Make the study and the report; print seconds and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("runs", 100), ("points", 2000), ("metrics", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", type=Path, help="keep the study and the report here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        write(folder / "study", args.runs, args.points, args.metrics)
        begin = time.perf_counter()
        report.write([folder / "study"], folder / "report.html")
        seconds = time.perf_counter() - begin
        size = (folder / "report.html").stat().st_size / 1e6
    print(f"{args.runs} runs × {args.points} points × {args.metrics} metrics: ", end="")
    print(f"{seconds:.1f} s, {size:.1f} MB")


if __name__ == "__main__":
    main()
