"""An environment of one's own, whose tasks differ, trained by PPO with CPR.

A pendulum is to be swung up and held (the rules of Gymnasium's Pendulum-v1); from task to task its
length and the strength of its motor change. Everything is in this file: the environment, its
stream of tasks, and the training run of several seeds as one compiled program.

    python examples/own_environment.py
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.ppo.train import ppo
from continual_learning.envs import OnDevice, TaskStream, Transition, Uniform
from continual_learning.networks import MLP
from continual_learning.studies.experiment import MethodSpec
from continual_learning.studies.methods import transformation

DT, GRAVITY, MASS = 0.05, 10.0, 1.0
MAX_TORQUE, MAX_SPEED = 2.0, 8.0


class Angle(NamedTuple):
    """A pendulum: angle from upright and velocity, each []."""

    theta: jax.Array
    speed: jax.Array


@dataclasses.dataclass(frozen=True)
class Pendulum:
    """Swing up a pendulum and hold it; a step is paid −(θ² + 0.1 ω² + 0.001 torque²)."""

    observation_size: int = 3
    action_size: int = 1

    @property
    def parameters(self) -> Mapping[str, float]:
        """Length in meters, and a factor on the motor."""
        return {"length": 1.0, "strength": 1.0}

    def reset(self, key, task) -> Angle:
        """Any angle, little speed."""
        theta, speed = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return Angle(theta * jnp.pi, speed)

    def observe(self, state: Angle, task):
        """Position of the tip and velocity, [3]."""
        return jnp.stack([jnp.cos(state.theta), jnp.sin(state.theta), state.speed])

    def step(self, key, state: Angle, action, task):
        """Step the environment by a twentieth of a second."""
        torque = task["strength"] * MAX_TORQUE * jnp.clip(action[0], -1.0, 1.0)
        angle = (state.theta + jnp.pi) % (2 * jnp.pi) - jnp.pi
        reward = -(angle**2 + 0.1 * state.speed**2 + 0.001 * torque**2)
        length = task["length"]
        pull = 1.5 * GRAVITY / length * jnp.sin(state.theta)
        speed = state.speed + (pull + 3.0 / (MASS * length**2) * torque) * DT
        speed = jnp.clip(speed, -MAX_SPEED, MAX_SPEED)
        reached = Angle(state.theta + speed * DT, speed)
        return reached, Transition(self.observe(reached, task), reward, jnp.asarray(False), {})


def trainer(tasks: int, iterations: int):
    """PPO with CPR on pendulums that change."""
    env = Pendulum()
    stream = TaskStream(env, {"length": Uniform(0.8, 1.2), "strength": Uniform(0.8, 1.2)})
    method = MethodSpec(learning_rate=1e-3, clip=0.5, reset="cpr", options={"every": 500})

    def optimizer(units, hyper):
        return transformation(method, units, init="lecun_normal", hyper=hyper)

    return ppo(
        MLP((64, 64), 2 * env.action_size, "swish"),
        MLP((64, 64), 1, "swish"),
        OnDevice(stream, length=200, restart="fresh"),
        {"policy": optimizer, "value": optimizer},
        PPOConfig(
            environments=64,
            iterations_per_task=iterations,
            iterations_per_chunk=5,
            rollout=100,
            epochs=8,
            minibatches=16,
            discount=0.97,
            reward_scale=0.1,
            truncation="bootstrap",
            diagnostics=False,
        ),
        tasks=tasks,
    )


def train(seeds: int = 2, tasks: int = 3, iterations: int = 40) -> dict[str, np.ndarray]:
    """{column: [seeds, iterations in all]}."""
    program = trainer(tasks, iterations)
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds, dtype=jnp.uint32))
    state = jax.jit(jax.vmap(program.init, (0, None, None)))(keys, {}, ())
    chunk = jax.jit(jax.vmap(program.chunk, (0, None, None)), donate_argnums=0)
    parts = []
    for _ in range(program.chunks):
        state, rows = chunk(state, {}, ())
        parts.append(jax.tree.map(np.asarray, rows))
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def main() -> None:
    """Print the mean return of an episode at the beginning and end of every task."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=3)
    args = parser.parse_args()
    rows = train(args.seeds, args.tasks)
    print("task  length  strength  return: first episodes  last episodes   (seed 0)")
    for task in range(args.tasks):
        mine = {name: values[0][rows["task"][0] == task] for name, values in rows.items()}
        ended = mine["episode_return"][~np.isnan(mine["episode_return"])]
        print(
            f"{task:4}  {mine['length'][0]:6.2f}  {mine['strength'][0]:8.2f}  "
            f"{ended[0]:23.0f}  {ended[-1]:13.0f}"
        )


if __name__ == "__main__":
    main()
