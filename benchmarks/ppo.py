"""How fast PPO trains on a robot: environment steps per second over all seeds of one program.

Chunks of the training program of an experiment, metrics and diagnostics included, for each number
of seeds, physics and method; and, with --parts, how the time divides: the same number of physics
steps alone, and rollouts alone.

    python benchmarks/ppo.py --physics unrolled mjx --seeds 1 4 16 --methods adam cpr --parts
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

from continual_learning.agents.common.trainer import COMPILER_OPTIONS
from continual_learning.agents.ppo.rollout import collect
from continual_learning.envs.episodes import Episodes
from continual_learning.networks import DiagonalGaussian
from continual_learning.studies import build, registry
from continual_learning.studies.bench import timed


def rollouts(experiment, seeds: int, acting: bool) -> tuple[Any, Any]:
    """As many physics steps, by the policy or with fixed actions, and their first state."""
    stream = build.stream(experiment).stream
    env = stream.environment
    episodes = Episodes(env, experiment.agent.environments, experiment.stream.episode_length)
    policy = experiment.networks.build("policy", 2 * env.action_size)
    observations = jnp.zeros((1, env.observation_size))

    def one(state):
        task = stream.task(state.key, jnp.int32(0))
        live = episodes.live(state, task)
        params = policy.init(jax.random.key(0), observations)
        fixed = jax.random.normal(state.key, (episodes.count, env.action_size))

        def iteration(live, number):
            key = jax.random.fold_in(state.key, number)

            def act(step, observation):
                if not acting:
                    return fixed, fixed, fixed[:, 0]
                gaussian = DiagonalGaussian.from_outputs(policy.apply(params, observation))
                action = gaussian.sample(jax.random.fold_in(key, step))
                return action, action, gaussian.log_prob(action)

            live, rollout, _ = collect(
                episodes, live, task, act, steps=experiment.agent.rollout, keep_reached=False
            )
            return live, rollout.reward.sum()

        live, rewards = jax.lax.scan(
            iteration, live, jnp.arange(experiment.agent.iterations_per_chunk)
        )
        return live.state, rewards

    begin = jax.vmap(lambda key: episodes.begin(key, stream.task(key, jnp.int32(0))))
    return jax.vmap(one), jax.jit(begin)(keys(seeds))


def main() -> None:
    """Print a table and, with --json, add it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="slippery_ant")
    parser.add_argument("--physics", nargs="+", default=["unrolled", "mjx"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--methods", nargs="+", default=["adam", "cpr"])
    parser.add_argument("--iterations", type=int, default=6, help="per chunk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--environments", type=int, default=2048)
    parser.add_argument("--parts", action="store_true", help="also physics and rollouts alone")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    for physics in args.physics:
        experiment = registry.get(args.experiment).override(
            physics=physics,
            environments=args.environments,
            iterations_per_chunk=args.iterations,
            iterations_per_task=args.iterations * (args.rounds + 1),
        )
        for seeds in args.seeds:
            steps = (
                seeds * experiment.agent.rollout * experiment.agent.environments * args.iterations
            )
            row = {
                "experiment": args.experiment,
                "physics": physics,
                "seeds": seeds,
                "environments": args.environments,
                "device": jax.devices()[0].device_kind,
                "jax": jax.__version__,
                "python": platform.python_version(),
                "rounds": args.rounds,
                "iterations": args.iterations,
            }
            trainers = {name: build.trainer(experiment, name, None) for name in args.methods}
            parts = {name: training(trainer, seeds) for name, trainer in trainers.items()}
            if args.parts:
                parts["physics"] = rollouts(experiment, seeds, acting=False)
                parts["rollout"] = rollouts(experiment, seeds, acting=True)
            start = time.perf_counter()
            programs = compiled(parts, {**COMPILER_OPTIONS, **build.stream(experiment).options})
            row["compile_seconds"] = round(time.perf_counter() - start, 1)
            for name, times in timed(programs, first_states(parts), args.rounds).items():
                row[f"{name}_steps_per_second"] = round(steps / float(np.median(times)))
                row[f"{name}_seconds"] = [round(s, 4) for s in times]
            rows.append(row)
            print(json.dumps(row), flush=True)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
