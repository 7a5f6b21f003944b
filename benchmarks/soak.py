"""Kills −9 at random moments: what is gone on with ends like what was never killed, byte by byte.

Scenarios take turns until there have been so many kills: a study, a sweep, a halved sweep, local
jobs, SAC with a replay, and jobs on Ray. Each is first run to its end twice, in processes that
nobody disturbs. Then it is begun in new folders, again and again, and at random moments a process
is killed: the one that was started, or the worker of a job. Once nothing of it is left, it is
started again. When it comes to its end, all rows, the newest state of every method (with the rows
of its replay) and the choice of a sweep must be those of the run that was not killed.

    python benchmarks/soak.py --kills 100

Only processes that this program started are killed. It stops at the first difference and leaves
both folders.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from continual_learning import extras
from continual_learning.analysis import load
from continual_learning.jobs import launchers, manage
from continual_learning.jobs import tree as trees
from continual_learning.jobs.job import divide
from continual_learning.studies import launch, provenance, registry
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store import arrays, checkpoint, ring
from continual_learning.studies.store.manifest import STUDY
from continual_learning.sweeps import launch as sweeping
from continual_learning.sweeps import sweep as sweeps
from continual_learning.sweeps.grid import Grid

SECONDS = 0.2
"""Between checkpoints."""

LEFT = 120.0
"""Seconds after which what outlives a kill is a failure."""

MOST = 8
"""Kills of a folder; then it is left to come to its end."""

HANGING = 20
"""How many times as long as without a kill it may take to come to that end."""

WORKER = "continual_learning.jobs.worker"

DIGITS = registry.get("permuted_digits").override(
    tasks=40, examples_per_task=320, rows_per_task=1, hidden=(16,), **{"cpr.every": 7}
)
GAMES = registry.get("continual_minatar").override(
    games=("breakout", "freeway"),
    tasks=4,
    environments=2,
    vector_steps_per_task=200,
    steps_per_row=10,
    rows_per_chunk=1,
    capacity=150,
    batch=8,
    learning_starts=40,
    eval_every=0,
    channels=(2,),
    hidden=(8,),
)
OPTIONS = RunOptions(quiet=True, checkpoint_seconds=SECONDS)


def study(folder: Path) -> int:
    """Two methods, one after the other."""
    return _study(folder, DIGITS, ["adam", "cpr"])


def replay(folder: Path) -> int:
    """SAC, whose replay wraps around and is emptied at task changes."""
    return _study(folder, GAMES, ["cpr"])


def sweep(folder: Path) -> int:
    """Eight lanes in three blocks."""
    return _sweep(folder, None)


def halving(folder: Path) -> int:
    """Eight lanes in three blocks, of which four and then two go on."""
    return _sweep(folder, 2)


def jobs(folder: Path) -> int:
    """Four jobs, two at a time."""
    return _jobs(folder, {"name": "local", "options": {"parallel": 2}})


def ray(folder: Path) -> int:
    """Return the same on a cluster that is begun for them."""
    os.environ["RAY_TMPDIR"] = os.environ.get("SOAK_RAY", "/tmp")
    return _jobs(folder, {"name": "ray", "options": {"num_cpus": 0.5, "max_retries": 0}})


SCENARIOS = {each.__name__: each for each in (study, sweep, halving, jobs, replay, ray)}


def _study(folder: Path, experiment: Any, methods: list[str]) -> int:
    if (folder / STUDY).exists():
        return launch.resume(folder, OPTIONS)
    return launch.run(experiment, methods, [0, 1], folder, OPTIONS)


def _sweep(folder: Path, eta: int | None) -> int:
    grid = Grid({"max_reset": (0.005, 0.01, 0.02, 0.04)})
    small = DIGITS.override(tasks=16)
    asked = sweeps.Sweep(small, small, "cpr", grid, [1000, 1001], None, eta)
    return sweeping.run(asked, folder, sweeps.Setup(lanes=3), OPTIONS)


def _jobs(folder: Path, launcher: dict[str, Any]) -> int:
    if trees.is_tree(folder):
        return manage.resume(folder, None, OPTIONS, retry=True)
    divided = divide(DIGITS, ["adam", "cpr"], [0, 1], 1)
    return manage.begin(folder, divided, launchers.from_dict(launcher), OPTIONS)


def start(name: str, folder: Path) -> subprocess.Popen[bytes]:
    """Return a process that begins a scenario in a folder, or goes on with it."""
    with open(folder.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", __file__, "--child", name, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def descendants(pid: int) -> dict[int, str]:
    """{process that this one started, or one of those did: its command line}."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            facts = entry.joinpath("stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(facts[1])
    found, fresh = {pid}, {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh} - found
        found |= fresh
    commands = {}
    for each in found - {pid}:
        with contextlib.suppress(OSError):
            commands[each] = Path(f"/proc/{each}/cmdline").read_text().replace("\0", " ")
    return commands


def kill(process: subprocess.Popen[bytes], rng: random.Random) -> str:
    """Kills the process, or the worker of one of its jobs; which, once all that must end has."""
    below = descendants(process.pid)
    workers = [pid for pid, command in below.items() if WORKER in command]
    if workers and rng.random() < 0.5:
        victim = rng.choice(workers)
        _signal(victim)
        process.terminate()  # the others end after their chunk
        try:
            process.wait(LEFT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemExit(f"{process.pid} did not end within {LEFT} s of SIGTERM.") from None
        killed = "worker"
    else:
        process.kill()
        process.wait()
        killed = "main"
    until = time.monotonic() + LEFT
    while left := [pid for pid in below if _alive(pid)]:
        if time.monotonic() > until:
            named = "\n".join(f"  {pid}: {below[pid][:200]}" for pid in left)
            raise SystemExit(f"{LEFT} s after a kill there are still:\n{named}")
        time.sleep(0.05)
    return killed


def _signal(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def state(folder: Path) -> dict[str, Any]:
    """All arrays of the newest checkpoint of a method, with the rows of its ring; {name: bytes}."""
    newest = max(each for each in folder.glob("*") if each.name.isdigit())
    listing = json.loads((newest / checkpoint.LEAVES).read_text())
    kept, found = checkpoint.rows_kept(newest), {}
    for lane in range(listing["lanes"]):
        file = newest / arrays.lane_file(lane)
        with np.load(file, allow_pickle=False) as stored:
            found |= {f"{lane}/{name}": stored[name].tobytes() for name in stored.files}
        if kept is not None:
            rows = {
                path: checkpoint.Leaf(leaf["dtype"], tuple(leaf["shape"]))
                for path, leaf in listing["leaves"].items()
                if kept.holds(path)
            }
            held = ring.read(folder, kept, lane, rows)
            found |= {f"{lane}/{path}": array.tobytes() for path, array in held.items()}
    return {"chunk": newest.name, "leaves": listing["leaves"], **found}


def differences(folder: Path, whole: Path) -> list[str]:
    """Return what differs between two folders that came to their end."""
    found = []
    if _rows(folder) != _rows(whole):
        found.append("rows")
    states = [
        {str(each.relative_to(place)): state(each) for each in place.rglob("checkpoints/*")}
        for place in (folder, whole)
    ]
    if states[0].keys() != states[1].keys():
        return [*found, f"checkpoints: {sorted(states[0])} and {sorted(states[1])}"]
    for name, each in states[0].items():
        again = states[1][name]
        changed = [key for key in each.keys() | again.keys() if each.get(key) != again.get(key)]
        if changed:
            found.append(f"{name}: {sorted(changed)[:5]}")
    best = [place / sweeps.BEST for place in (folder, whole)]
    if best[0].exists() != best[1].exists() or (
        best[0].exists() and best[0].read_bytes() != best[1].read_bytes()
    ):
        found.append(sweeps.BEST)
    return found


def _rows(folder: Path) -> dict[str, Any]:
    """Return {column: its type and its bytes} of all rows; those of text as a list."""
    frame = load(folder)
    if "study" in frame:
        frame["study"] = [str(Path(each).relative_to(folder)) for each in frame["study"]]
    columns = {str(name): column.to_numpy() for name, column in frame.items()}
    return {
        name: (str(x.dtype), x.tolist() if x.dtype == object else x.tobytes())
        for name, x in columns.items()
    }


def trials(name: str, base: Path, rng: random.Random) -> Iterator[str]:
    """Kills of a scenario, each as it has happened; ends never."""
    first, whole = base / name / "first", base / name / "whole"
    whole.parent.mkdir()
    for folder in (first, whole):  # the first one compiles what the others find in the cache
        began = time.monotonic()
        if start(name, folder).wait() != 0:
            raise SystemExit(f"{name} fails without a kill: see {folder.with_suffix('.log')}")
    usual = time.monotonic() - began
    if found := differences(first, whole):
        raise SystemExit(f"{first} differs from {whole}: {'; '.join(found)}")
    print(f"{name}: {usual:.0f} s without a kill", flush=True)
    for number in itertools.count():
        folder, killed = base / name / f"{number:03}", 0
        while True:
            spared = killed == MOST
            process = start(name, folder)
            try:
                code = process.wait(usual * (HANGING if spared else rng.uniform(0.05, 1.1)))
                break
            except subprocess.TimeoutExpired:
                done = kill(process, rng)
            if spared:
                raise SystemExit(f"{name} hangs: see {folder.with_suffix('.log')}")
            killed += 1
            yield done
        if code != 0:
            raise SystemExit(f"{name}: exit code {code}, see {folder.with_suffix('.log')}")
        if found := differences(folder, whole):
            raise SystemExit(f"{folder} differs from {whole}: {'; '.join(found)}")
        shutil.rmtree(folder)
        yield "compared"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--child", nargs=2, metavar=("SCENARIO", "DIR"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        sys.exit(SCENARIOS[args.child[0]](Path(args.child[1])))
    names = args.scenarios.split(",")
    if "ray" in names:
        extras.require("ray")
    os.environ["JAX_PLATFORMS"] = "cpu"
    base = Path(tempfile.mkdtemp(prefix="soak"))
    os.environ["SOAK_RAY"] = str(base / "r")
    os.environ["XDG_CACHE_HOME"] = str(base / "cache")
    counts: Counter[tuple[str, str]] = Counter()
    running = {name: trials(name, base, random.Random(f"{args.seed} {name}")) for name in names}
    commit, began, kills = provenance.commit(), time.monotonic(), 0
    while kills < args.kills or any(counts[name, "compared"] == 0 for name in names):
        for name in names:
            if kills >= args.kills and counts[name, "compared"]:
                continue
            said = next(running[name])
            counts[name, said] += 1
            kills += said != "compared"
            print(f"{name}: {said} ({kills} kills, {time.monotonic() - began:.0f} s)", flush=True)
    print(f"\ncommit {commit}, {platform.machine()}, {os.cpu_count()} cores")
    print("| scenario | killed: the command | killed: a worker | folders compared |")
    print("| --- | --- | --- | --- |")
    for name in names:
        row = [counts[name, each] for each in ("main", "worker", "compared")]
        print(f"| {name} | {' | '.join(map(str, row))} |")
    shutil.rmtree(base)


if __name__ == "__main__":
    main()
