"""Environment steps per second of MetaWorld: one after the other, and by a pool of workers.

Random actions, restarts included, all in one run: what one process does alone is measured between
the pools, so that a machine that slows down is seen. Needs the extra `metaworld`.

    python benchmarks/host_pool.py --workers 1,2,4,8,16 --seeds 5 --seconds 20 --out pool.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

import numpy as np

from continual_learning.envs.host import MetaWorld, Pool


def alone(stream: MetaWorld, seconds: float) -> float:
    """Return steps per second of ten environments, stepped one after the other in this process."""
    rng = np.random.default_rng(0)
    environments = [stream.make(0, seed=0) for _ in range(10)]
    for number, environment in enumerate(environments):
        environment.reset(number)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for action, environment in zip(actions(rng, (10,)), environments, strict=True):
            if environment.step(action).truncated:
                environment.reset(steps)
        steps += len(environments)
    return steps / (time.perf_counter() - began)


def pooled(stream: MetaWorld, seeds: int, count: int, workers: int, seconds: float) -> float:
    """Return steps per second of a pool, of all its environments together."""
    rng = np.random.default_rng(0)
    with Pool(stream, range(seeds), count, workers) as pool:
        pool.enter(0)
        pool.step(actions(rng, (seeds, count)))
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            pool.step(actions(rng, (seeds, count)))
            steps += seeds * count
        return steps / (time.perf_counter() - began)


def actions(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Any, float32 [*shape, 4]."""
    return rng.uniform(-1.0, 1.0, (*shape, 4)).astype(np.float32)


def main() -> None:
    """Print a line per measurement, and write them all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", default="reach")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--environments", type=int, default=10, help="of each seed")
    parser.add_argument("--workers", default="1,2", help="numbers of processes to try")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--out", type=Path, help="a file for the results, as JSON")
    args = parser.parse_args()
    stream = MetaWorld.mt1(args.task)
    result = {
        "task": args.task,
        "seeds": args.seeds,
        "environments": args.environments,
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "measured": [],
    }
    for workers in map(int, args.workers.split(",")):
        one = alone(stream, args.seconds)
        many = pooled(stream, args.seeds, args.environments, workers, args.seconds)
        found = {"workers": workers, "alone": one, "pool": many, "ratio": many / one}
        result["measured"].append(found)
        print(json.dumps(found), flush=True)
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
