"""Where the time of a training program goes on a device: its loops and its slowest kernels.

A chunk of the program is run twice, the second time under JAX's profiler. Kernels are summed over
all their runs and listed under the loop or branch that holds them. On a CPU nothing is reported.

    python benchmarks/timeline.py --experiment slippery_ant --seeds 16
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import jax
from kernels import COMPUTATION, INSTRUCTION
from programs import compiled, first_states, training

from continual_learning.studies import build, registry

LEAST = 0.005  # share of the whole that is shown


def places(text: str) -> dict[str, tuple[str, str]]:
    """{kernel: (loop or branch that it is in, the operations that it comes from)}."""
    within = set(re.findall(r"calls=%([\w.\-]+)", text))
    found = {}
    for part, body in COMPUTATION.findall(text):
        if part in within:
            continue
        for line in body.splitlines():
            if known := INSTRUCTION.match(line):
                source = re.search(r'op_name="([^"]*)"', line)
                found[plain(known[1])] = part, source[1] if source else ""
    return found


def plain(name: str) -> str:
    """Return the name of an instruction as its kernel has it."""
    return re.sub(r"\W", "_", name)


def measured(folder: Path) -> dict[str, tuple[float, int]]:
    """{kernel: (milliseconds, runs)} of all devices."""
    spent, runs = defaultdict(float), defaultdict(int)
    for file in folder.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            if not plane.name.startswith("/device:"):
                continue
            for line in plane.lines:
                if not line.name.startswith("Stream"):
                    continue  # others say the same once more
                for event in line.events:
                    stats = dict(event.stats)
                    name = plain(str(stats.get("hlo_op") or event.name))
                    spent[name] += event.duration_ns / 1e6
                    runs[name] += 1
    return {name: (spent[name], runs[name]) for name in spent}


def main() -> None:
    """Print loops with their slowest kernels, those that take longest first."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="slippery_ant")
    parser.add_argument("--method", default="adam")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=2, help="of a chunk")
    parser.add_argument("--environments", type=int, default=2048)
    args = parser.parse_args()
    experiment = registry.get(args.experiment).override(
        environments=args.environments,
        iterations_per_chunk=args.iterations,
        iterations_per_task=3 * args.iterations,
    )
    trainer = build.trainer(experiment, args.method, build.data(experiment))
    parts = {"chunk": training(trainer, args.seeds)}
    program, state = compiled(parts, trainer.options)["chunk"], first_states(parts)["chunk"]
    state, _ = jax.block_until_ready(program(state))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            began = time.perf_counter()
            jax.block_until_ready(program(state))
            whole = 1e3 * (time.perf_counter() - began)
        kernels = measured(Path(folder))
    where, by_part = places(program.as_text()), defaultdict(list)
    for name, (spent, runs) in kernels.items():
        part, source = where.get(name, ("elsewhere", ""))
        by_part[part].append((spent, runs, name, source))
    busy = sum(spent for spent, _ in kernels.values())
    print(f"{whole:.1f} ms, kernels {busy:.1f} ms")
    for part, found in sorted(by_part.items(), key=lambda item: -sum(k[0] for k in item[1])):
        print(f"{part}: {sum(k[0] for k in found):.1f} ms in {sum(k[1] for k in found)} runs")
        for spent, runs, name, source in sorted(found, reverse=True):
            if spent > LEAST * busy:
                print(f"  {spent:9.2f} ms {runs:6} × {name[:40]:40} {source[-64:]}")


if __name__ == "__main__":
    main()
