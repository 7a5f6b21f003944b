"""The packer's prediction of memory, the compiler's plan, and what a run really takes at its peak.

The prediction for N lanes comes from two programs of few lanes, the plan from the program of N
lanes itself; the peak is what the allocator of the device says after two chunks. Compilers try
their kernels on the device, and no peak can be forgotten: one process compiles all sizes side by
side, and says its own peak, others find a program in a cache and run it. Only GPUs say it.

    python benchmarks/memory.py --experiment slippery_ant --lanes 8 32 --json memory.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from continual_learning.studies import build, registry
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.sweeps import pack

SMALL = (2, 4)
CACHE = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def program(experiment: str, scale: str, method: str, lanes: int):
    """Return a program of so many lanes."""
    chosen = registry.get(experiment).at_scale(scale)
    trainer = build.trainer(chosen, method, build.data(chosen))
    side_by_side = Lanes(range(lanes), devices=jax.local_devices()[:1])
    return contextlib.closing(program_of(trainer, side_by_side))


def compiled(*settings: str, lanes: list[int]) -> dict[str, Any]:
    """Bytes of each size by plan and by prediction, and at the peak of compiling all of them."""
    sizes = sorted({*SMALL, *lanes})
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        programs = [stack.enter_context(program(*settings, size)) for size in sizes]
        plans = dict(zip(sizes, pool.map(lambda each: each.memory(), programs), strict=True))
    line = pack.Line.through({size: plans[size] for size in SMALL})
    rows = [
        {"lanes": size, "predicted": round(line.at(size)), "planned": plans[size]} for size in lanes
    ]
    return {"compiling": peak(), "rows": rows}


def run(*settings: str, lanes: list[int]) -> dict[str, Any]:
    """Bytes at the peak of a run of the first of these sizes."""
    with program(*settings, lanes[0]) as whole:
        state = whole.init()
        for _ in range(2):
            state, rows = whole.chunk(state)
            jax.block_until_ready((state, rows))
    return {"peak": peak()}


def peak() -> int | None:
    """Bytes at the peak of this process so far."""
    return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def part_of(part: str, words: list[str], lanes: list[int], cache: str) -> dict[str, Any]:
    """Return a part of the work, in a process of its own."""
    child = [sys.executable, __file__, *words, "--part", part, "--lanes", *map(str, lanes)]
    settings = os.environ | CACHE | {"JAX_COMPILATION_CACHE_DIR": cache}
    output = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True, env=settings)
    return json.loads(output.stdout.splitlines()[-1])


def main() -> None:
    """Print a row of JSON per size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="permuted_digits")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--method", default="cpr")
    parser.add_argument("--lanes", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--json", type=Path, help="write it there too")
    parser.add_argument("--part", choices=["compiled", "run"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        part = {"compiled": compiled, "run": run}[args.part]
        found = part(args.experiment, args.scale, args.method, lanes=args.lanes)
        print(json.dumps({"device": jax.devices()[0].device_kind, "jax": jax.__version__, **found}))
        return
    words = ["--experiment", args.experiment, "--scale", args.scale, "--method", args.method]
    facts = {"experiment": args.experiment, "scale": args.scale, "method": args.method}
    with tempfile.TemporaryDirectory() as cache:
        facts |= part_of("compiled", words, args.lanes, cache)
        for row in facts["rows"]:
            row["peak"] = part_of("run", words, [row["lanes"]], cache)["peak"]
            if row["peak"]:
                row["predicted_over_peak"] = row["predicted"] / row["peak"]
                row["planned_over_peak"] = row["planned"] / row["peak"]
            print(json.dumps(row), flush=True)
            if args.json is not None:
                args.json.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
