"""How many first states of a robot end their episode at once, whatever the policy does.

Brax draws first states around the pose at rest without looking at the ground, so that some have a
foot in it. The engine pushes it out; a robot that is thrown up or over has fallen within a second,
and with `restart = "first"` it does so again and again. The robot does nothing here (actions 0).

    python benchmarks/first_states.py --json results/physics/first_states.json
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from continual_learning.envs.robots import Ant, Humanoid
from continual_learning.envs.robots.robot import BRAX_SOLVER, Solver
from continual_learning.physics import CPU_OPTIONS

CASES = {
    "ant, unrolled": Ant("unrolled"),
    "ant, MuJoCo's C": Ant("unrolled"),
    "ant, mjx": Ant("mjx"),
    "ant, mjx, Brax's solver": Ant("mjx", solver=BRAX_SOLVER),
    "ant, mjx, 20 iterations": Ant("mjx", solver=Solver("elliptic", 20, 20)),
    "ant, generalized": Ant("generalized"),
    "humanoid, unrolled": Humanoid("unrolled"),
    "humanoid, MuJoCo's C": Humanoid("unrolled"),
    "humanoid, mjx": Humanoid("mjx"),
}


def shares(robot, frictions: list[float], states: int, steps: int) -> list[float]:
    """Shares of first states whose episode ends within `steps` steps, by friction."""
    usual = {name: jnp.float32(value) for name, value in robot.parameters.items()}
    idle = jnp.zeros(robot.action_size)

    def falls(friction: jax.Array, key: jax.Array) -> jax.Array:
        task = usual | {"friction": friction}

        def step(carry, key):
            state, fallen = carry
            state, reached = robot.step(key, state, idle, task)
            return (state, fallen | reached.terminated), None

        start = robot.reset(key, task), jnp.array(False)
        return jax.lax.scan(step, start, jax.random.split(key, steps))[0][1]

    every = jax.vmap(jax.vmap(falls, (None, 0)), (0, None))
    program = jax.jit(every, compiler_options=options(robot))
    keys = jax.random.split(jax.random.key(0), states)
    return program(jnp.asarray(frictions, jnp.float32), keys).mean(axis=1).tolist()


def options(robot) -> dict[str, str]:
    """Options of the compiler."""
    unrolled_on_cpu = robot.physics == "unrolled" and jax.default_backend() == "cpu"
    return dict(CPU_OPTIONS) if unrolled_on_cpu else {}


def shares_in_mujoco(robot, frictions: list[float], states: int, steps: int) -> list[float]:
    """Return the same by MuJoCo's C, from the same states."""
    model = robot._unrolled_model(robot._system)
    keys = jax.random.split(jax.random.key(0), states)
    every_q, every_qd = (np.asarray(x, float) for x in jax.jit(jax.vmap(robot._first))(keys))
    low, high = robot.healthy
    data = mujoco.MjData(model)

    def falls(q: np.ndarray, qd: np.ndarray) -> bool:
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = q, qd
        data.ctrl[:] = robot._control(np.zeros(model.nu))
        for _ in range(steps):
            mujoco.mj_step(model, data, robot.frames)
            if not low <= data.qpos[2] <= high:
                return True
        return False

    found = []
    for friction in frictions:
        model.geom_friction[:, 0] = friction
        found.append(float(np.mean([*map(falls, every_q, every_qd)])))
    return found


def main() -> None:
    """Print a table and, with --json, write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--frictions", type=float, nargs="+", default=[0.02, 0.2, 1.0, 2.0])
    parser.add_argument("--states", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for name in args.cases:
        measure = shares_in_mujoco if name.endswith("MuJoCo's C") else shares
        fallen = measure(CASES[name], args.frictions, args.states, args.steps)
        found = dict(zip(map(str, args.frictions), fallen, strict=True))
        rows.append({"case": name, "fallen": found})
        print(name, found, flush=True)
    report = {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "states": args.states,
        "steps": args.steps,
        "rows": rows,
    }
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
