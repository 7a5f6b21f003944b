"""How fast SAC plays the games: steps per second over all seeds of one program.

Chunks of the training program of an experiment, metrics and diagnostics included, for each number
of seeds and method, once there is something to learn from; and the games alone, with random
actions. An update is one of all seeds.

    python benchmarks/sac.py --seeds 1 5 --methods adam cpr --json sac.json

With --serial the training programs are also compiled without the options of their trainer, so that
kernels run one after the other, and whether they say the same is written down.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from programs import compiled, first_states, keys, training

from continual_learning.envs.episodes import Episodes
from continual_learning.studies import build, registry
from continual_learning.studies.bench import timed


def playing(experiment, seeds: int) -> tuple[Any, Any]:
    """As many steps of the games with random actions, and their first state."""
    stream = build.stream(experiment).stream
    count, length = experiment.agent.environments, experiment.stream.episode_length
    episodes = Episodes(stream.environment, count, length, restart="fresh")

    def one(state):
        task = stream.task(state.key, jnp.int32(0))
        key = jax.random.fold_in(state.key, state.steps)

        def step(live, number):
            drawn = jax.random.randint(jax.random.fold_in(key, number), (count,), 0, 6)
            live, reached = episodes.step(live, drawn, task)
            return live, reached.reward.sum()

        live = episodes.live(state, task)
        live, rewards = jax.lax.scan(step, live, jnp.arange(experiment.agent.steps_per_row))
        return live.state, rewards.sum()

    begin = jax.vmap(lambda key: episodes.begin(key, stream.task(key, jnp.int32(0))))
    return jax.vmap(one), jax.jit(begin)(keys(seeds))


def equal(trainer, seeds: int, one, other) -> bool:
    """Whether two programs give the same states and rows, bit for bit."""
    found = [jax.tree.leaves(program(training(trainer, seeds)[1])) for program in (one, other)]
    return all(bool(jnp.array_equal(_bits(a), _bits(b))) for a, b in zip(*found, strict=True))


def _bits(x: jax.Array) -> np.ndarray:
    key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(x) if key else x).view(np.uint8)


def main() -> None:
    """Print a row per number of seeds and, with --json, add it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="continual_minatar")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--methods", nargs="+", default=["adam", "cpr"])
    parser.add_argument("--steps", type=int, default=1000, help="of all environments, per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--capacity", type=int, help="of the replay")
    parser.add_argument("--serial", action="store_true", help="also kernels one after the other")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    chosen = registry.get(args.experiment)
    experiment = chosen.override(
        vector_steps_per_task=args.steps * (args.rounds + 1),
        steps_per_row=args.steps,
        rows_per_chunk=1,
        learning_starts=0,
        eval_every=0,
        capacity=args.capacity or chosen.agent.capacity,
    )
    for seeds in args.seeds:
        trainers = {name: build.trainer(experiment, name, None) for name in args.methods}
        parts = {name: training(trainer, seeds) for name, trainer in trainers.items()}
        parts["games"] = playing(experiment, seeds)
        start = time.perf_counter()
        programs = compiled(parts, trainers[args.methods[0]].options)
        if args.serial:
            again = {f"{name}_serial": training(trainers[name], seeds) for name in trainers}
            parts, programs = parts | again, programs | compiled(again, options=None)
        row = {
            "experiment": args.experiment,
            "seeds": seeds,
            "environments": experiment.agent.environments,
            "replay_ratio": experiment.agent.replay_ratio,
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "python": platform.python_version(),
            "rounds": args.rounds,
            "steps": args.steps,
            "compile_seconds": round(time.perf_counter() - start, 1),
        }
        for name, times in timed(programs, first_states(parts), args.rounds).items():
            middle = float(np.median(times))
            played = args.steps * experiment.agent.environments * seeds
            row[f"{name}_steps_per_second"] = round(played / middle)
            row[f"{name}_seconds"] = [round(s, 4) for s in times]
            if name != "games":
                updates = args.steps * experiment.agent.replay_ratio
                row[f"{name}_milliseconds_per_update"] = round(1000 * middle / updates, 4)
        if args.serial:
            row["serial_is_equal"] = all(
                equal(trainer, seeds, programs[name], programs[f"{name}_serial"])
                for name, trainer in trainers.items()
            )
        rows.append(row)
        print(json.dumps(row), flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
