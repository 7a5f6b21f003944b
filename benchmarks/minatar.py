"""Game steps per second of ours and of the official package, on one core, in one run.

Random actions, sticky as in both; episodes start anew when they end. Needs the extra `oracle`.

    taskset -c 0 python -P benchmarks/minatar.py --envs 256 --seconds 5

(`-P`, since a file of this name beside it would hide the official package.)
"""

from __future__ import annotations

import argparse
import json
import platform
import time

import jax
import jax.numpy as jnp
import numpy as np
from minatar import Environment

from continual_learning.envs.episodes import Episodes
from continual_learning.envs.minatar import GAMES, MinAtar

CHUNK = 100  # steps of every environment in a call


def ours(name: str, count: int, seconds: float) -> float:
    """Return steps per second of the environment that can play every game."""
    env = MinAtar(tuple(GAMES))
    episodes = Episodes(env, count, restart="fresh")
    task = {"game": jnp.float32(env.games.index(name))}

    @jax.jit
    def chunk(state, key, task):
        def step(live, key):
            action = jax.random.randint(key, (count,), 0, env.actions)
            live, timestep = episodes.step(live, action, task)
            return live, jnp.sum(timestep.reward)

        live = episodes.live(state, task)
        live, rewards = jax.lax.scan(step, live, jax.random.split(key, CHUNK))
        return live.state, jnp.sum(rewards)

    state = episodes.begin(jax.random.key(0), task)
    jax.block_until_ready(chunk(state, jax.random.key(1), task))
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        state, total = chunk(state, jax.random.key(steps), task)
        total.block_until_ready()
        steps += count * CHUNK
    return steps / (time.perf_counter() - began)


def official(name: str, seconds: float) -> float:
    """Return steps per second of the official package, with its observation, as an agent would."""
    env, rng = Environment(name), np.random.default_rng(0)
    env.reset()
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for action in rng.integers(0, 6, 1000):
            _, over = env.act(action)
            env.state()
            if over:
                env.reset()
        steps += 1000
    return steps / (time.perf_counter() - began)


def main() -> None:
    """Print a line per game."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    print(json.dumps({"machine": platform.processor(), "device": str(jax.devices()[0])}))
    for name in GAMES:
        fast, slow = ours(name, args.envs, args.seconds), official(name, args.seconds)
        print(f"{name:15} {fast:12,.0f} {slow:12,.0f} {fast / slow:6.1f}×", flush=True)


if __name__ == "__main__":
    main()
