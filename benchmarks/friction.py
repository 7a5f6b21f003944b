"""Is it friction? A block is pushed over the ground, and what holds it back is compared with μmg.

The block slides along x, y and z without turning, on the ground of the robots: same contact
parameters, same time step, same solver. It settles, is pushed for half a second with 1.25 or 2
times μmg, and its acceleration in the second half says what the ground did: force = push − mass ·
acceleration.

    python benchmarks/friction.py --json friction.json
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import brax
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from brax.io import mjcf

from continual_learning.envs.robots import UNROLLED_SOLVER, Ant, Humanoid, Solver
from continual_learning.envs.robots.physics import MJX, Body, Generalized, Unrolled
from continual_learning.envs.robots.robot import solver_of, solver_set

FRICTIONS = (0.02, 0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
DIRECTIONS = (0.0, 30.0, 45.0)  # degrees
PUSHES = (1.25, 2.0)  # times μmg
MASS, GRAVITY = 1.0, 9.81

BLOCK = """
<mujoco>
  <option timestep="{timestep}" iterations="4"/>
  <custom>
    <numeric data="{inverse}" name="matrix_inv_iterations"/>
    <numeric data="15" name="solver_maxls"/>
  </custom>
  <default><geom condim="3" friction="1 0.5 0.5"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="40 40 40" contype="1" conaffinity="1"/>
    <body name="block" pos="0 0 0.1">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom name="block" type="box" size="0.2 0.2 0.1" mass="{mass}" contype="1" conaffinity="1"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="x" gear="1"/>
    <motor joint="y" gear="1"/>
  </actuator>
</mujoco>
"""


def block(physics: str, solver: Solver | None, timestep: float) -> tuple[Any, Any]:
    """(engine, system) of a block on the ground."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = mjcf.loads(BLOCK.format(mass=MASS, timestep=timestep, inverse=10))
    if physics == "generalized":
        return Generalized(1), system
    assert solver is not None
    if physics == "unrolled":
        return Unrolled(solver_of(system.mj_model, solver), 1), system
    return MJX(1), solver_set(system, solver)


def measured(
    engine: Any, system: Any, friction: jax.Array, degrees: jax.Array, push: jax.Array
) -> dict[str, jax.Array]:
    """Return what a sliding block meets, everything [].

    Args:
      engine: of the physics.
      system: of the block.
      friction: float32 [], μ.
      degrees: float32 [], direction of the push.
      push: float32 [], as a multiple of μmg.
    """
    timestep = system.opt.timestep
    world = system.tree_replace({"geom_friction": system.geom_friction.at[:, 0].set(friction)})
    if isinstance(engine, Unrolled):
        world = {"friction": friction}
    steps = int(0.5 / float(np.asarray(timestep)))
    angle = degrees * (math.pi / 180)
    along = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    force = push * friction * MASS * GRAVITY

    def step(body: Body, control: jax.Array) -> tuple[Body, tuple[jax.Array, jax.Array]]:
        body = engine.step(world, body, control)
        return body, (body.q, body.qd)

    body = engine.start(world, jnp.zeros(3), jnp.zeros(3))
    body, _ = jax.lax.scan(step, body, jnp.zeros((2 * steps, 2)))
    body, (q, qd) = jax.lax.scan(step, body, jnp.tile(force * along, (steps, 1)))
    speed = qd[:, :2] @ along
    half = steps // 2  # the start is left out
    acceleration = (speed[-1] - speed[half - 1]) / ((steps - half) * timestep)
    return {
        "force": force - MASS * acceleration,
        "coulomb": friction * MASS * GRAVITY,
        "height": q[:, 2].max() - q[0, 2],
    }


def table(
    physics: str,
    solver: Solver | None,
    timestep: float,
    directions: Sequence[float] = DIRECTIONS,
) -> dict[str, Any]:
    """Force over μmg [pushes, frictions, directions], and how high the block hops in meters."""
    engine, system = block(physics, solver, timestep)
    shape = len(PUSHES), len(FRICTIONS), len(directions)
    push, friction, degrees = (
        jnp.asarray(grid.reshape(-1), jnp.float32)
        for grid in np.meshgrid(PUSHES, FRICTIONS, directions, indexing="ij")
    )
    every = jax.vmap(lambda mu, d, p: measured(engine, system, mu, d, p))
    found = jax.tree.map(lambda x: x.reshape(shape), jax.jit(every)(friction, degrees, push))
    return {
        "ratio": np.asarray(found["force"] / found["coulomb"]).round(4).tolist(),
        "hop": np.asarray(found["height"]).round(4).tolist(),
    }


def main() -> None:
    """Print a table per engine and, with --json, write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    cases = {
        "ant, generalized": ("generalized", None, 0.01),
        f"ant, mjx {tuple(Ant.usual_solver)}": ("mjx", Ant.usual_solver, 0.01),
        f"humanoid, mjx {tuple(Humanoid.usual_solver)}": ("mjx", Humanoid.usual_solver, 0.003),
        f"ant, unrolled {tuple(UNROLLED_SOLVER)}": ("unrolled", UNROLLED_SOLVER, 0.01),
        f"humanoid, unrolled {tuple(UNROLLED_SOLVER)}": ("unrolled", UNROLLED_SOLVER, 0.003),
    }
    report = {
        "brax": brax.__version__,
        "mujoco": mujoco.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": jax.devices()[0].device_kind,
        "frictions": FRICTIONS,
        "directions": DIRECTIONS,
        "pushes": PUSHES,
        "results": {},
    }
    for name, (physics, solver, timestep) in cases.items():
        rows = report["results"][name] = table(physics, solver, timestep)
        print(f"\n{name}: force / μmg when pushed along {DIRECTIONS} degrees; hop in mm")
        for i, push in enumerate(PUSHES):
            print(f"  pushed with {push} μmg")
            for mu, ratios, hops in zip(FRICTIONS, rows["ratio"][i], rows["hop"][i], strict=True):
                numbers = " ".join(f"{ratio:7.3f}" for ratio in ratios)
                print(f"  μ {mu:5.2f}  {numbers}   {1e3 * max(hops):6.1f}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
