"""How fast a robot's physics is, and how often it diverges, by friction.

Random actions (normal, standard deviation 1), or those that a study's policy draws; episodes of
1,000 steps with restarts. One program steps all environments at all frictions. With --compare the
engines step alone, in turn, without observations and rewards; "mujoco" is MuJoCo's C, with an
environment on each core.

    python benchmarks/physics.py --robot ant --physics mjx --steps 30000000 --json physics.json
    python benchmarks/physics.py --robot ant --compare unrolled mjx mujoco --json engines.json
    python benchmarks/physics.py --run runs/ant --method cpr --seed 0 --json physics.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from continual_learning.envs.episodes import Episodes
from continual_learning.envs.robots import ROBOTS, UNROLLED_SOLVER, Solver
from continual_learning.physics import CPU_OPTIONS

CHUNK = 100  # steps of every environment in a call


def random_actions(env):
    """(key, observations [n, …]) -> actions [n, action_size], whatever is observed."""

    def act(key, observation):
        return jax.random.normal(key, (len(observation), env.action_size))

    return act


def trained_actions(policy):
    """Return the same for the policy of a study, as it acts in training."""
    from continual_learning.video.policy import actor

    act = actor(policy, stochastic=True)
    return lambda key, observation: act(policy.params, policy.normalizer, key, observation)


def measure(
    env, act, frictions: list[float], count: int, steps: int, time_limit: float = np.inf
) -> dict:
    """Return steps per second over all environments, and what went wrong at each friction."""
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
            height = jax.vmap(env._torso)(live.state.env.body)[:, 2]
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
    run = jax.jit(
        jax.vmap(chunk, (0, 0, None)), donate_argnums=0, compiler_options=options(env.physics)
    )
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


def options(physics: str) -> dict:
    """Options of the compiler."""
    cpu = jax.default_backend() == "cpu"
    return dict(CPU_OPTIONS) if cpu and physics == "unrolled" else {}


class Alone:
    """An engine that steps environments under random actions, each chunk from the same states."""

    def __init__(self, robot, physics: str, frictions: list[float], count: int):
        self.env = env = robot(physics)
        self.steps = CHUNK * count * len(frictions)
        usual = {name: jnp.asarray(value, jnp.float32) for name, value in env.parameters.items()}

        def lane(key, friction):
            world = env._world(usual | {"friction": friction})
            q, qd = jax.vmap(env._first)(jax.random.split(key, count))
            bodies = jax.vmap(env._engine.start, (None, 0, 0))(world, q, qd)

            def step(bodies, t):
                shape = count, env.action_size
                actions = jax.random.normal(jax.random.fold_in(key, t), shape)
                return jax.vmap(env._engine.step, (None, 0, 0))(world, bodies, actions), None

            return jax.lax.scan(step, bodies, jnp.arange(CHUNK))[0].q.mean()

        keys = jax.random.split(jax.random.key(0), len(frictions))
        arguments = keys, jnp.asarray(frictions, jnp.float32)
        began = time.perf_counter()
        lowered = jax.jit(jax.vmap(lane)).lower(*arguments)
        traced = time.perf_counter()
        program = lowered.compile(options(physics))
        self.row = {
            "solver": tuple(_settings(env)),
            "trace": round(traced - began, 2),
            "compile": round(time.perf_counter() - traced, 2),
        }
        self.run = lambda: jax.block_until_ready(program(*arguments))
        self.run()


class MuJoCo:
    """MuJoCo's C with the settings of the unrolled engine, an environment on each core."""

    def __init__(self, robot, frictions: list[float]):
        self.env = env = robot("unrolled")
        self.model = env._unrolled_model(env._system)
        self.model.geom_friction[:, 0] = frictions[0]
        self.cores = len(os.sched_getaffinity(0))
        self.steps = 20 * CHUNK * self.cores
        self.row = {"solver": tuple(UNROLLED_SOLVER), "cores": self.cores}

    def run(self) -> None:
        """Step every core's environment, from the same state each time."""

        def one(number: int) -> None:
            data = mujoco.MjData(self.model)
            data.qpos[:] = self.env._system.init_q
            rng = np.random.default_rng(number)
            for actions in rng.normal(size=(20 * CHUNK, self.model.nu)):
                data.ctrl[:] = actions
                mujoco.mj_step(self.model, data, self.env.frames)

        with ThreadPoolExecutor(self.cores) as pool:
            list(pool.map(one, range(self.cores)))


def _settings(env) -> Solver:
    return UNROLLED_SOLVER if env.physics == "unrolled" else env.usual_solver


def compare(robot, engines: list[str], frictions: list[float], count: int, rounds: int) -> dict:
    """{engine: steps of environments per second, and the like}, by turns."""
    runs = {
        name: MuJoCo(robot, frictions) if name == "mujoco" else Alone(robot, name, frictions, count)
        for name in engines
    }
    seconds = {name: [] for name in engines}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run.run()
            seconds[name].append(time.perf_counter() - start)
    return {
        name: run.row
        | {
            "steps_per_second": round(run.steps / float(np.median(seconds[name]))),
            "rounds": [round(run.steps / each) for each in seconds[name]],
        }
        for name, run in runs.items()
    }


def main() -> None:
    """Print a table and, with --json, add it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--robot", choices=list(ROBOTS), default="ant")
    parser.add_argument("--physics", choices=["generalized", "mjx", "unrolled"], default="unrolled")
    parser.add_argument(
        "--compare", nargs="+", choices=["generalized", "mjx", "unrolled", "mujoco"], default=[]
    )
    parser.add_argument("--rounds", type=int, default=3, help="of a comparison")
    parser.add_argument("--solver", help="CONE,ITERATIONS,LINE_SEARCH")
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
    about = {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "mujoco": mujoco.__version__,
        "python": platform.python_version(),
    }
    if args.compare:
        found = compare(ROBOTS[args.robot], args.compare, args.frictions, args.envs, args.rounds)
        row = {"robot": args.robot, "frictions": args.frictions, "envs": args.envs} | about
        report(row | {"engines": found}, args.json)
        return
    solver = None
    if args.solver:
        cone, iterations, line_search = args.solver.split(",")
        solver = Solver(cone, int(iterations), int(line_search))
    if args.run:
        from continual_learning.video.policy import trained

        policy = trained(args.run, args.method, args.seed)
        env = dataclasses.replace(
            policy.robot, precision=args.precision, solver=solver or policy.robot.solver
        )
        act = trained_actions(policy)
        args.robot, args.physics = policy.experiment.stream.robot, env.physics
    else:
        env = ROBOTS[args.robot](args.physics, solver=solver, precision=args.precision)
        act = random_actions(env)
    row = {
        "actions": f"{policy.method}, seed {policy.seed}" if args.run else "random",
        "robot": args.robot,
        "physics": args.physics,
        "solver": args.physics != "generalized" and tuple(solver or _settings(env)),
        "precision": args.precision,
        "frictions": args.frictions,
        "envs": args.envs,
    } | about
    row |= measure(env, act, args.frictions, args.envs, args.steps, args.time_limit)
    report(row, args.json)


def report(row: dict, path: Path | None) -> None:
    """Print a row and add it to a file."""
    for name, value in row.items():
        print(f"{name:18} {value}")
    if path:
        known = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*known, row], indent=1))


if __name__ == "__main__":
    main()
