"""Shows what the published trainer would log of a player whose true returns are known.

    python results/continual_minatar/bookkeeping.py

The player is no network and never changes: it guesses from an observation what state Space Invaders
is in, tries with the game's own rules how far to walk before it shoots, and takes the best first
action. It plays in the 12 environments of `continual_minatar`, once left alone and once with the
evaluations that `--published-return` makes. Nothing is trained, so a CPU takes minutes.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp

from continual_learning.agents.sac.published_return import PublishedReturn
from continual_learning.envs import Episodes, MinAtar
from continual_learning.envs.minatar import space_invaders as game
from continual_learning.envs.minatar.board import FIRE, LEFT, RIGHT, SIZE

HERE = Path(__file__).parent
ENVIRONMENTS, LENGTH = 12, 1000
STEPS = 25_000  # of all environments
HORIZON, DISCOUNT, DEATH = 16, 0.95, 10
LOG_EVERY = 84  # steps of all environments: the trainer logs every 1,000

ENV = MinAtar(("space_invaders",))
EPISODES = Episodes(ENV, ENVIRONMENTS, LENGTH, restart="fresh")
TASK = {"game": jnp.float32(0)}


def play(params: None, observation: jax.Array) -> jax.Array:
    """Return the player's actions, int32 [envs], on observations [envs, observation_size]."""
    return jax.vmap(_action)(observation)


def _action(observation: jax.Array) -> jax.Array:
    board = observation.reshape(ENV.observation_shape)[..., : len(game.CHANNELS)]
    state = _guess(board > 0)

    def value(shift: jax.Array) -> jax.Array:
        """Return what it is worth to walk some columns and fire from there: kills, soon."""

        def step(carry, t):
            state, alive = carry
            walk = jnp.where(shift < 0, LEFT, RIGHT)
            action = jnp.where(t < jnp.abs(shift), walk, FIRE)
            state, killed, over = game.step(game.Draws(), state, action, True)
            gain = alive * (killed - DEATH * over) * DISCOUNT**t
            return (state, alive & ~over), gain

        return jnp.sum(jax.lax.scan(step, (state, jnp.array(True)), jnp.arange(HORIZON))[1])

    shifts = jnp.array(sorted(range(1 - SIZE, SIZE), key=abs))  # the nearest, if several are best
    best = shifts[jnp.argmax(jax.vmap(value)(shifts))]
    return jnp.where(best == 0, FIRE, jnp.where(best < 0, LEFT, RIGHT))


def _guess(board: jax.Array) -> game.State:
    """Return a state that looks like the board [10, 10, 6]; what is not seen is a guess."""
    cannon, aliens, leftwards, _, shots, bombs = jnp.moveaxis(board, -1, 0)
    age = SIZE - 1 - jnp.max(jnp.where(jnp.any(shots, axis=1), jnp.arange(SIZE), 0))
    return game.start(game.Draws())._replace(
        cannon=jnp.argmax(cannon[-1]).astype(jnp.int32),
        aliens=aliens,
        shots=shots,
        bombs=bombs,
        heading=jnp.where(jnp.any(leftwards), -1, 1).astype(jnp.int32),
        move_timer=jnp.minimum(jnp.sum(aliens, dtype=jnp.int32), game.SLOWEST) // 2,
        bomb_timer=jnp.int32(HORIZON),  # the bombs that are seen are enough to think of
        cooldown=jnp.maximum(game.COOLDOWN - age, 0).astype(jnp.int32),
    )


def logged(evaluations: bool, steps: int = STEPS) -> dict[str, float]:
    """Return means over the run: of the true returns that ended, and of what would be logged."""
    published = PublishedReturn(EPISODES)
    key = jax.random.key(0)

    def step(carry, _):
        live, sums = carry
        action = play(None, live.observation)
        if evaluations:
            live = published.evaluate_if_due(live, play, None, jax.random.key(1), TASK)
        live, reached = EPISODES.step(live, action, TASK)
        sums = published.add(sums, reached)
        ended = reached.ended
        true = jnp.sum(jnp.where(ended, reached.episode_return, 0))
        limit = jnp.sum(reached.truncated)
        return (live, sums), (published.value(sums), true, jnp.sum(ended), limit)

    @jax.jit
    def run():
        live = EPISODES.live(EPISODES.begin(key, TASK), TASK)
        return jax.lax.scan(step, (live, published.start()), length=steps)[1]

    values, true, ended, limit = run()
    values = values[LOG_EVERY - 1 :: LOG_EVERY]
    return {
        "episodes": int(ended.sum()),
        "true_return": round(float(true.sum() / ended.sum()), 1),
        "cut_by_the_limit": round(float(limit.sum() / ended.sum()), 3),
        "logged_mean": round(float(jnp.nanmean(values)), 1),
        "logged_highest": round(float(jnp.nanmax(values)), 1),
    }


if __name__ == "__main__":
    found = {"alone": logged(False), "with_evaluations": logged(True)}
    (HERE / "bookkeeping.json").write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
