"""How far a robot's step in one kernel is from that of XLA's kernels, on a GPU.

Random states, a tenth of a radian from the pose at rest, many of them in the ground; frictions from
0.02 to 2. Elsewhere than on a GPU both are XLA's, and equal.

    python benchmarks/one_kernel.py --robot ant
"""

from __future__ import annotations

import argparse
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.envs.robots import ROBOTS

DEPTH, HEIGHT = 0.45, 0.1  # of the torso below and above the pose at rest, in meters
NOISE = 0.1
LEAST = 1e-3  # added to the largest entry of a state, by which its error is divided


def main() -> None:
    """Print errors of positions, velocities and accelerations, and what a bad control does."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--robot", choices=["ant", "humanoid"], default="ant")
    parser.add_argument("--envs", type=int, default=4096)
    args = parser.parse_args()
    robot = ROBOTS[args.robot]("unrolled")
    engine, rest = robot._engine.engine, jnp.asarray(robot._system.init_q)
    keys = jax.random.split(jax.random.key(0), 4)
    q = rest[:, None] + NOISE * jax.random.normal(keys[0], (len(rest), args.envs))
    q = q.at[2].add(jax.random.uniform(keys[1], (args.envs,), minval=-DEPTH, maxval=HEIGHT))
    q = q.at[3:7].divide(jnp.linalg.norm(q[3:7], axis=0))
    state = engine.state(q, jax.random.normal(keys[2], (engine.model.velocities, args.envs)))
    control = jax.random.normal(keys[3], (len(engine.model.motors), args.envs))
    parameters = {"friction": jnp.linspace(0.02, 2.0, args.envs)}

    found = jax.jit(engine.step)(state, control, parameters)
    with mock.patch.object(jax, "default_backend", lambda: "cpu"):
        wanted = jax.jit(lambda *given: engine.step(*given))(state, control, parameters)
    for name, one, other in zip(state._fields, found, wanted, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        error = np.abs(one - other).max(0) / (LEAST + np.abs(other).max(0))
        print(f"{name}: median {np.median(error):.1e}, 99 % below {np.quantile(error, 0.99):.1e}")
    bad = engine.step(state, control.at[0, 0].set(jnp.nan), parameters).qvel
    print(f"one control that is no number: {int((~jnp.isfinite(bad)).any(0).sum())} bad states")


if __name__ == "__main__":
    main()
