"""What running all seeds as one program gains: N seeds at once, over N runs of one seed.

A task of an experiment's training program (permuted digits unless told otherwise), metrics and
diagnostics included, for each number of seeds; the run of one seed is repeated in turn with the
others, in the same process. Compilation is not counted.

    python benchmarks/seeds.py --seeds 1 4 16 64 --json seeds.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import jax
import numpy as np

from continual_learning.agents.common.lanes import over_lanes
from continual_learning.studies import build, registry
from continual_learning.studies.runner import Lanes


def runner(trainer, seeds: int):
    """Return a function that runs one task for all seeds, and is ready to run the next."""
    lanes = Lanes(range(seeds), devices=jax.local_devices()[:1])
    keys, data = lanes.place(lanes.keys()), lanes.replicate(trainer.data)
    init, chunk = (over_lanes(f, seeds, (0, None, None)) for f in (trainer.init, trainer.chunk))
    state, chunk = jax.jit(init)(keys, {}, data), jax.jit(chunk, donate_argnums=0)
    held = [jax.block_until_ready(chunk(state, {}, data))[0]]

    def run() -> float:
        start = time.perf_counter()
        held[0], rows = chunk(held[0], {}, data)
        jax.block_until_ready((held[0], rows))
        return time.perf_counter() - start

    return run


def main() -> None:
    """Print a table and, with --json, write it with the machine's description."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="permuted_digits")
    parser.add_argument("--method", default="cpr")
    parser.add_argument("--data-folder", help="of MNIST's files")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    experiment = registry.get(args.experiment)
    if args.data_folder is not None:
        experiment = experiment.override(data_folder=args.data_folder)
    trainer = build.trainer(experiment, args.method, build.data(experiment))
    device = jax.devices()[0].device_kind
    print(f"{device}, jax {jax.__version__}, {args.experiment}, {args.method}")
    print(f"{'seeds':>6} {'updates/s':>12} {'gain':>7}  rounds")
    alone, rows = runner(trainer, 1), {}
    for seeds in args.seeds:
        together = runner(trainer, seeds)
        times = np.array([(alone(), together()) for _ in range(args.rounds)])
        gains = seeds * times[:, 0] / times[:, 1]
        rows[seeds] = {
            "updates_per_second": experiment.steps_per_task * seeds / np.median(times[:, 1]),
            "gain": float(np.median(gains)),
            "gain_of_rounds": [float(gains.min()), float(gains.max())],
        }
        row = rows[seeds]
        low, high = row["gain_of_rounds"]
        print(
            f"{seeds:6} {row['updates_per_second']:12,.0f} {row['gain']:7.2f}  {low:.2f}-{high:.2f}"
        )
    if args.json:
        report = {
            "device": device,
            "jax": jax.__version__,
            "python": platform.python_version(),
            "experiment": args.experiment,
            "method": args.method,
            "steps_per_task": experiment.steps_per_task,
            "rounds": args.rounds,
            "results": rows,
        }
        args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
