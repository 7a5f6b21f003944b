"""What a sweep as one program gains: all values and seeds at once, over one run per value in turn.

Chunks of the training program of an ablation (ρ of CPR on SlipperyAnt unless told otherwise),
metrics and diagnostics included: all its lanes together, and each of its values alone with all
seeds, in turn and in the same process. The runs of single values share a compiled program, so that
compilation, which separate runs would pay each, is not counted.

    python benchmarks/sweep.py --seeds 4 --physics mjx --json sweep.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from continual_learning.studies import build, registry
from continual_learning.studies.bench import timed
from continual_learning.studies.runner import Lanes
from continual_learning.studies.study import Study


def _call(program: Any, hyper: Any, data: Any, state: Any) -> tuple[Any, Any]:
    return program(state, hyper, data)


def main() -> None:
    """Print what was measured and, with --json, write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="slippery_ant_rho")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--physics", help="of a robot")
    parser.add_argument("--iterations", type=int, help="of a robot's chunk")
    parser.add_argument("--environments", type=int, help="of a robot")
    parser.add_argument("--data-folder", help="of MNIST's files")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    changes = {
        "physics": args.physics,
        "environments": args.environments,
        "data_folder": args.data_folder,
    }
    if args.iterations is not None:
        changes["iterations_per_chunk"] = args.iterations
        changes["iterations_per_task"] = args.iterations * (args.rounds + 1)
    changes = {name: value for name, value in changes.items() if value is not None}
    experiment = registry.get(args.experiment).override(**changes)
    study = Study(experiment, ["cpr"], list(range(args.seeds)))
    trainer = build.trainer(experiment, "cpr", build.data(experiment))
    init = jax.jit(jax.vmap(trainer.init, (0, 0, None)))
    chunk = jax.jit(
        jax.vmap(trainer.chunk, (0, 0, None)),
        donate_argnums=0,
        compiler_options=dict(trainer.options),
    )
    # All lanes, and then those of each value: every seed of it.
    whole = {"together": slice(None)}
    whole |= {f"{i}": slice(i, i + args.seeds) for i in range(0, study.lanes, args.seeds)}
    calls, states, programs, compile_seconds = {}, {}, {}, {}
    for name, own in whole.items():
        hyper = {key: values[own] for key, values in study.arrays().items()}
        lanes = Lanes(study.seeds[own], devices=jax.local_devices()[:1])
        keys, hyper = lanes.place((lanes.keys(), jax.tree.map(jax.numpy.asarray, hyper)))
        data = lanes.replicate(trainer.data)
        states[name] = init(keys, hyper, data)
        count = len(lanes.seeds)
        if count not in programs:
            begin = time.perf_counter()
            programs[count] = chunk.lower(states[name], hyper, data).compile()
            compile_seconds[count] = round(time.perf_counter() - begin, 1)
        calls[name] = partial(_call, programs[count], hyper, data)
    seconds = timed(calls, states, args.rounds)
    one_by_one = np.sum([times for name, times in seconds.items() if name != "together"], axis=0)
    gains = one_by_one / np.array(seconds["together"])
    report = {
        "experiment": args.experiment,
        "changes": changes,
        "lanes": {name: list(values) for name, values in experiment.lanes.items()},
        "seeds": args.seeds,
        "steps": experiment.steps // build.chunks(experiment) * study.lanes,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "rounds": args.rounds,
        "compile_seconds_by_lanes": compile_seconds,
        "together_seconds": [round(each, 4) for each in seconds["together"]],
        "in_turn_seconds": [round(float(each), 4) for each in one_by_one],
        "gain": round(float(np.median(gains)), 3),
        "gain_of_rounds": [round(float(gains.min()), 3), round(float(gains.max()), 3)],
    }
    print(json.dumps(report, indent=1))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
