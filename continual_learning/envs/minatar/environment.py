"""The games of MinAtar as one environment, whose task parameter selects the game."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from continual_learning.envs.base import Task, Transition
from continual_learning.envs.minatar import asterix, breakout, freeway, seaquest, space_invaders
from continual_learning.envs.minatar.board import ACTIONS, SIZE, UNIFORMS, Game
from continual_learning.envs.minatar.pack import pack, size, unpack
from continual_learning.envs.minatar.switch import switch

GAMES: dict[str, Game] = {
    name: cast(Game, module)
    for name, module in {
        "space_invaders": space_invaders,
        "asterix": asterix,
        "seaquest": seaquest,
        "breakout": breakout,
        "freeway": freeway,
    }.items()
}
CHANNELS = 10  # the channels of the game that has the most


class State(NamedTuple):
    """The state of any game.

    Attributes:
      game: uint8 [bytes], the state of the game itself.
      action: int32 [], the last action, which may be repeated.
    """

    game: jax.Array
    action: jax.Array


@dataclasses.dataclass(frozen=True)
class MinAtar:
    """Games whose states, observations and actions have one form, so that one program runs them.

    An observation is the flattened board [10, 10, 10]: the channels of the game, then empty ones.
    The six actions are those of `board.ACTIONS` in every game.

    Attributes:
      games: the names of the games; the task parameter `game` is an index into them.
      sticky: the probability that a step repeats the previous action (Machado et al. 2018, arXiv
        1709.06009). At the start of an episode, the previous action is to do nothing.
      ramping: whether the games that can become harder while they are played do so.
    """

    games: tuple[str, ...] = ("space_invaders", "asterix", "seaquest")
    sticky: float = 0.1
    ramping: bool = True

    binary = True
    actions = len(ACTIONS)
    action_size = 1
    observation_shape = (SIZE, SIZE, CHANNELS)
    observation_size = SIZE * SIZE * CHANNELS

    def __post_init__(self):
        object.__setattr__(self, "games", tuple(self.games))
        if not self.games:
            raise ValueError(f"MinAtar: at least one game is needed. Valid: {', '.join(GAMES)}.")
        for name in self.games:
            if name not in GAMES:
                raise ValueError(f"MinAtar has no game {name!r}. Valid: {', '.join(GAMES)}.")
        if not 0 <= self.sticky <= 1:
            raise ValueError(f"MinAtar: sticky must be within [0, 1], got {self.sticky}.")

    @property
    def parameters(self) -> dict[str, float]:
        """The task parameters, with their usual values: the first game."""
        return {"game": 0.0}

    def reset(self, key: jax.Array, task: Task) -> State:
        """Return the first state of an episode."""
        uniform = jax.random.uniform(key, (UNIFORMS,))
        return State(self._play("start", task, uniform), jnp.zeros((), jnp.int32))

    def observe(self, state: State, task: Task) -> jax.Array:
        """Return the observation of a state, zeros and ones, float32 [1000]."""
        return self._play("observe", task, state.game).astype(jnp.float32)

    def step(
        self, key: jax.Array, state: State, action: jax.Array, task: Task
    ) -> tuple[State, Transition]:
        """Return the next state and the outcome of the step.

        Args:
          key: the key for everything random in the step.
          state: the state of one environment.
          action: int32 [], an index into `board.ACTIONS`.
          task: {"game": float32 []}.
        """
        uniform = jax.random.uniform(key, (1 + UNIFORMS,))
        action = jnp.where(uniform[0] < self.sticky, state.action, action.astype(jnp.int32))
        game, observation, reward, over = self._play(
            "step", task, (uniform[1:], state.game, action)
        )
        reached = Transition(
            observation.astype(jnp.float32), reward.astype(jnp.float32), over, metrics={}
        )
        return State(game, action), reached

    def _play(self, what: str, task: Task, args: Any) -> Any:
        index = jnp.clip(jnp.round(task["game"]).astype(jnp.int32), 0, len(self.games) - 1)
        rules = [GAMES[name] for name in self.games]
        length = max(size(layout(game)) for game in rules)
        branches = [getattr(_Packed(game, length, self.ramping), what) for game in rules]
        return switch(index, branches, args)


@dataclasses.dataclass(frozen=True)
class _Packed:
    """A game whose states and observations have the same size as those of all other games."""

    rules: Game
    length: int
    ramping: bool

    def start(self, uniform: jax.Array) -> jax.Array:
        return pack(self.rules.start(self.rules.draw(uniform)), self.length)

    def observe(self, packed: jax.Array) -> jax.Array:
        return self._seen(unpack(packed, layout(self.rules)))

    def step(self, args: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
        uniform, packed, action = args
        state = unpack(packed, layout(self.rules))
        state, reward, over = self.rules.step(self.rules.draw(uniform), state, action, self.ramping)
        return pack(state, self.length), self._seen(state), reward, over

    def _seen(self, state: Any) -> jax.Array:
        board = self.rules.observe(state)
        return jnp.pad(board, ((0, 0), (0, 0), (0, CHANNELS - board.shape[-1]))).reshape(-1)


@functools.cache
def layout(rules: Game) -> Any:
    """Return the shapes and types of a game's state."""
    uniform = jax.ShapeDtypeStruct((UNIFORMS,), jnp.float32)
    return jax.eval_shape(lambda uniform: rules.start(rules.draw(uniform)), uniform)
