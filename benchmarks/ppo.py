"""How fast PPO trains on a robot: environment steps per second over all seeds of one program.

Iterations of the training program of an experiment, metrics and diagnostics included, for each
number of seeds, physics and method; and, with --parts, how the time divides: the same number of
physics steps alone, and rollouts alone. Compilation is not counted; a second compilation would be
(the program is called again and again as a study does).

    python benchmarks/ppo.py --physics mjx generalized --seeds 1 4 16 --methods adam cpr --parts
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.rollout import collect
from continual_learning.envs.episodes import Episodes
from continual_learning.experiments import control, registry
from continual_learning.networks import DiagonalGaussian


def timed(run, state, rounds: int) -> tuple[list[float], float]:
    """Seconds of `rounds` calls of run(state) -> state, and of the first, which compiles."""
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        state = jax.block_until_ready(run(state))
        seconds.append(time.perf_counter() - start)
    return seconds[1:], seconds[0]


def whole(experiment, method: str, seeds: int, rounds: int) -> tuple[list[float], float]:
    """Seconds of chunks of the training program."""
    trainer = control.trainer(experiment, method, None)
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds, dtype=jnp.uint32))
    state = jax.jit(jax.vmap(trainer.init, (0, None, None)))(keys, {}, ())
    chunk = jax.jit(jax.vmap(trainer.chunk, (0, None, None)), donate_argnums=0)
    found = timed(lambda state: chunk(state, {}, ())[0], state, rounds)
    assert chunk._cache_size() == 1, "the program was compiled twice"
    return found


def part(experiment, seeds: int, rounds: int, acting: bool) -> list[float]:
    """Seconds of as many physics steps: with the policy that acts, or with fixed actions."""
    stream = control.stream(experiment)
    env = stream.environment
    episodes = Episodes(env, experiment.environments, experiment.episode_length)
    policy = control.policy(experiment, env.action_size)
    observations = jnp.zeros((1, env.observation_size))

    def one(state):
        task = stream.task(state.key, jnp.int32(0))
        live = episodes.live(state, task)
        params = policy.init(jax.random.key(0), observations)
        fixed = jax.random.normal(state.key, (episodes.count, env.action_size))

        def act(key, observation):
            if not acting:
                return fixed, fixed[:, 0]
            gaussian = DiagonalGaussian.from_outputs(policy.apply(params, observation))
            action = gaussian.sample(key)
            return action, gaussian.log_prob(action)

        def iteration(live, number):
            key = jax.random.fold_in(state.key, number)
            live, rollout, _ = collect(
                episodes, live, task, act, key, steps=experiment.rollout, keep_reached=False
            )
            return live, rollout.reward.sum()

        live, _ = jax.lax.scan(iteration, live, jnp.arange(experiment.iterations_per_chunk))
        return live.state

    keys = jax.vmap(jax.random.key)(jnp.arange(seeds, dtype=jnp.uint32))
    begin = jax.vmap(lambda key: episodes.begin(key, stream.task(key, jnp.int32(0))))
    return timed(jax.jit(jax.vmap(one), donate_argnums=0), jax.jit(begin)(keys), rounds)[0]


def main() -> None:
    """Prints a table and, with --json, adds it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="slippery_ant")
    parser.add_argument("--physics", nargs="+", default=["mjx", "generalized"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--methods", nargs="+", default=["adam", "cpr"])
    parser.add_argument("--iterations", type=int, default=1, help="per call")
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
            steps = seeds * experiment.rollout * experiment.environments * args.iterations
            row = {
                "experiment": args.experiment,
                "physics": physics,
                "seeds": seeds,
                "environments": args.environments,
                "device": jax.devices()[0].device_kind,
                "jax": jax.__version__,
                "python": platform.python_version(),
                "rounds": args.rounds,
            }
            for method in args.methods:
                seconds, first = whole(experiment, method, seeds, args.rounds)
                row[f"{method}_steps_per_second"] = round(steps / float(np.median(seconds)))
                row[f"{method}_seconds"] = [round(s, 4) for s in seconds]
                row[f"{method}_compile_seconds"] = round(first, 1)
            if args.parts:
                base = float(np.median(row[f"{args.methods[0]}_seconds"]))
                for name, acting in (("physics", False), ("rollout", True)):
                    share = float(np.median(part(experiment, seeds, args.rounds, acting))) / base
                    row[f"{name}_share"] = round(share, 3)
            rows.append(row)
            print(json.dumps(row), flush=True)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
