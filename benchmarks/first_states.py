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

from continual_learning.envs.robots import Ant, Humanoid
from continual_learning.envs.robots.robot import BRAX_SOLVER, Solver

CASES = {
    "ant, mjx": Ant("mjx"),
    "ant, mjx, Brax's solver": Ant("mjx", solver=BRAX_SOLVER),
    "ant, mjx, 20 iterations": Ant("mjx", solver=Solver("elliptic", 20, 20)),
    "ant, generalized": Ant("generalized"),
    "humanoid, mjx": Humanoid("mjx"),
}


def share(robot, friction: float, states: int, steps: int) -> float:
    """Share of first states whose episode ends within `steps` steps."""
    task = {name: jnp.float32(value) for name, value in robot.parameters.items()}
    task["friction"] = jnp.float32(friction)
    idle = jnp.zeros(robot.action_size)

    def falls(key: jax.Array) -> jax.Array:
        def step(carry, key):
            state, fallen = carry
            state, reached = robot.step(key, state, idle, task)
            return (state, fallen | reached.terminated), None

        start = robot.reset(key, task), jnp.array(False)
        return jax.lax.scan(step, start, jax.random.split(key, steps))[0][1]

    keys = jax.random.split(jax.random.key(0), states)
    return float(jax.jit(jax.vmap(falls))(keys).mean())


def main() -> None:
    """Prints a table and, with --json, writes it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--frictions", type=float, nargs="+", default=[0.02, 0.2, 1.0, 2.0])
    parser.add_argument("--states", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for name in args.cases:
        found = {str(f): share(CASES[name], f, args.states, args.steps) for f in args.frictions}
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
