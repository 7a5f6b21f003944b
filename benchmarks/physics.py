"""How fast a robot's physics is, and how often it diverges, by friction.

Random actions (normal, standard deviation 1), or those that a study's policy draws; episodes of
1,000 steps with restarts. One program steps all environments at all frictions.

    python benchmarks/physics.py --robot ant --physics mjx --steps 30000000 --json physics.json
    python benchmarks/physics.py --run runs/ant --method cpr --seed 0 --json physics.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from continual_learning.envs.episodes import Episodes
from continual_learning.envs.robots import Ant, Humanoid, Solver
from continual_learning.experiments.video.policy import actor, trained

CHUNK = 100  # steps of every environment in a call


def random_actions(env):
    """(key, observations [n, …]) -> actions [n, action_size], whatever is observed."""

    def act(key, observation):
        return jax.random.normal(key, (len(observation), env.action_size))

    return act


def trained_actions(policy):
    """The same for the policy of a study, as it acts in training."""
    act = actor(policy, stochastic=True)
    return lambda key, observation: act(policy.params, policy.normaliser, key, observation)


def measure(
    env, act, frictions: list[float], count: int, steps: int, time_limit: float = np.inf
) -> dict:
    """Steps per second over all environments, and what went wrong at each friction."""
    episodes = Episodes(env, count)

    def task(friction):
        usual = {name: jnp.asarray(value, jnp.float32) for name, value in env.parameters.items()}
        return usual | {"friction": friction}

    def begin(key, friction):
        return episodes.begin(key, task(friction))

    def chunk(state, friction, number):
        live = episodes.live(state, task(friction))

        def step(live, t):
            key = jax.random.fold_in(jax.random.fold_in(state.key, 7), number * CHUNK + t)
            live, reached = episodes.step(live, act(key, live.observation), task(friction))
            height = live.state.env.body.q[:, 2]
            return live, {
                "diverged": reached.metrics["diverged"].sum(),
                "ended": reached.ended.sum(),
                "reward": reached.reward.mean(),
                "height": height.mean(),
            }

        live, found = jax.lax.scan(step, live, jnp.arange(CHUNK))
        return live.state, {
            name: values.mean() if name in ("reward", "height") else values.sum()
            for name, values in found.items()
        }

    lanes = jnp.asarray(frictions, jnp.float32)
    keys = jax.random.split(jax.random.key(0), len(frictions))
    states = jax.jit(jax.vmap(begin))(keys, lanes)
    run = jax.jit(jax.vmap(chunk, (0, 0, None)), donate_argnums=0)
    per_call = CHUNK * count * len(frictions)
    rows, seconds, number = [], [], 0
    began = time.perf_counter()
    while number < 3 or (
        (number - 1) * per_call < steps and time.perf_counter() - began < time_limit
    ):
        start = time.perf_counter()
        states, found = jax.block_until_ready(run(states, lanes, jnp.int32(number)))
        seconds.append(time.perf_counter() - start)
        rows.append(jax.tree.map(np.asarray, found))
        number += 1
    total = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {
        "steps": number * per_call,
        "compile_and_first": round(seconds[0], 2),
        "steps_per_second": round(per_call / float(np.median(seconds[1:]))),
        "diverged": total["diverged"].sum(0).tolist(),
        "episodes": total["ended"].sum(0).tolist(),
        "reward": total["reward"].mean(0).round(3).tolist(),
        "height": total["height"].mean(0).round(3).tolist(),
    }


def main() -> None:
    """Prints a table and, with --json, adds it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--robot", choices=["ant", "humanoid"], default="ant")
    parser.add_argument("--physics", choices=["generalized", "mjx"], default="mjx")
    parser.add_argument("--solver", help="of MJX: CONE,ITERATIONS,LINE_SEARCH")
    parser.add_argument("--precision", choices=["float32", "default"], default="float32")
    parser.add_argument("--frictions", type=float, nargs="+", default=[0.02, 0.07, 0.3, 2.0])
    parser.add_argument("--envs", type=int, default=8192, help="at each friction")
    parser.add_argument("--steps", type=int, default=30_000_000)
    parser.add_argument("--time-limit", type=float, default=np.inf, help="seconds for the steps")
    parser.add_argument("--run", type=Path, help="folder of a study whose policy acts")
    parser.add_argument("--method", help="of the study")
    parser.add_argument("--seed", type=int, help="of the study")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    solver = None
    if args.solver:
        cone, iterations, line_search = args.solver.split(",")
        solver = Solver(cone, int(iterations), int(line_search))
    if args.run:
        policy = trained(args.run, args.method, args.seed)
        env = dataclasses.replace(
            policy.robot, precision=args.precision, solver=solver or policy.robot.solver
        )
        act = trained_actions(policy)
        args.robot, args.physics = policy.experiment.robot, env.physics
    else:
        robot = {"ant": Ant, "humanoid": Humanoid}[args.robot]
        env = robot(args.physics, solver=solver, precision=args.precision)
        act = random_actions(env)
    row = {
        "actions": f"{policy.method}, seed {policy.seed}" if args.run else "random",
        "robot": args.robot,
        "physics": args.physics,
        "solver": args.physics == "mjx" and tuple(solver or env.usual_solver),
        "precision": args.precision,
        "frictions": args.frictions,
        "envs": args.envs,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "mujoco": mujoco.__version__,
        "python": platform.python_version(),
    }
    row |= measure(env, act, args.frictions, args.envs, args.steps, args.time_limit)
    for name, value in row.items():
        print(f"{name:18} {value}")
    if args.json:
        known = json.loads(args.json.read_text()) if args.json.exists() else []
        args.json.write_text(json.dumps([*known, row], indent=1))


if __name__ == "__main__":
    main()
