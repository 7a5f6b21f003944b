"""The packer's prediction of memory, the compiler's plan, and what a run really takes at its peak.

The prediction for N lanes comes from two programs of few lanes, the plan from the program of N
lanes itself; the peak is what the allocator of the device says after two chunks, in a process of
its own. Only GPUs say it.

    python benchmarks/memory.py --experiment slippery_ant --lanes 8 32 --json memory.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import jax

from continual_learning.experiments import build, registry
from continual_learning.experiments.runner import Lanes, program_of
from continual_learning.experiments.sweeps import pack

SMALL = (2, 4)


def measure(experiment: str, scale: str, method: str, lanes: int) -> dict[str, int | None]:
    """Bytes by prediction, by plan, and at the peak of a run; the run comes first."""
    chosen = registry.get(experiment).at_scale(scale)
    trainer = build.trainer(chosen, method, build.data(chosen))

    def program(count: int):
        side_by_side = Lanes(range(count), devices=jax.local_devices()[:1])
        return contextlib.closing(program_of(trainer, side_by_side))

    with program(lanes) as whole:
        state = whole.init()
        for _ in range(2):
            state, rows = whole.chunk(state)
            jax.block_until_ready((state, rows))
        stats = jax.local_devices()[0].memory_stats() or {}
        del state, rows
        planned = whole.memory()
    small = {}
    for count in SMALL:
        with program(count) as few:
            small[count] = few.memory()
    return {
        "lanes": lanes,
        "predicted": round(pack.Line.through(small).at(lanes)),
        "planned": planned,
        "peak": stats.get("peak_bytes_in_use"),
    }


def main() -> None:
    """Prints JSON, a process for each number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="permuted_digits")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--method", default="cpr")
    parser.add_argument("--lanes", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--json", type=Path, help="write it there too")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    chosen = ["--experiment", args.experiment, "--scale", args.scale, "--method", args.method]
    if args.one:
        found = measure(args.experiment, args.scale, args.method, *args.lanes)
        print(json.dumps({"device": jax.devices()[0].device_kind, "jax": jax.__version__, **found}))
        return
    rows = []
    for lanes in args.lanes:
        words = [sys.executable, __file__, *chosen, "--one", "--lanes", str(lanes)]
        output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        row = json.loads(output.splitlines()[-1])
        if row["peak"]:
            row["predicted_over_peak"] = row["predicted"] / row["peak"]
            row["planned_over_peak"] = row["planned"] / row["peak"]
        rows.append(row)
    facts = {"experiment": args.experiment, "scale": args.scale, "method": args.method}
    text = json.dumps({**facts, "rows": rows}, indent=2)
    print(text)
    if args.json is not None:
        args.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
