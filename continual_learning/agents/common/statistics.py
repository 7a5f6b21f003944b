"""Statistics of the episodes, and tables of columns."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

from continual_learning.envs.episodes import Live, Timestep

Columns = dict[str, jax.Array]
Array = TypeVar("Array")


def tally(reached: Timestep) -> tuple[Columns, Columns]:
    """Return the contribution of a step to the statistics.

    It is summed over environments in every step, because arrays [T, envs] would need more memory.

    Returns:
      Sums [] over the episodes that ended, and sums [] of the environment's metrics.
    """
    sums = {
        "episodes_ended": jnp.sum(reached.ended, dtype=jnp.int32),
        "episode_return": jnp.sum(jnp.where(reached.ended, reached.episode_return, 0)),
        "episode_length": jnp.sum(jnp.where(reached.ended, reached.episode_length, 0)),
    }
    return sums, jax.tree.map(jnp.sum, reached.metrics)


def statistics(live: Live, tallies: tuple[Columns, Columns], reward: jax.Array) -> Columns:
    """Return statistics of T steps.

    Args:
      live: the environments after the last step.
      tallies: the results of `tally` for all steps, [T].
      reward: all rewards, any shape.

    Returns:
      Columns []: "episodes_ended"; "episode_return" and "episode_length", their means over these
      episodes, NaN if there are none; "latest_return", the mean over environments of the return
      of the last episode that ended, NaN if none has ended; "running_return", the mean over
      environments of the sum of the rewards of the current episode after the last step (0 if it
      has just begun); "reward", the mean of all rewards; and every metric of the environment,
      summed over steps and environments.
    """
    sums, metrics = jax.tree.map(jnp.sum, tallies)
    ended = sums["episodes_ended"]
    found = {
        "episodes_ended": ended,
        "episode_return": _over(sums["episode_return"], ended),
        "episode_length": _over(sums["episode_length"], ended),
        "latest_return": jnp.nanmean(live.state.latest),
        "running_return": jnp.mean(live.state.total),
        "reward": jnp.mean(reward),
    }
    return disjoint(found, metrics)


def disjoint(*tables: dict[str, Array]) -> dict[str, Array]:
    """Merge the columns of several tables, whose names must differ."""
    columns: dict[str, Array] = {}
    for table in tables:
        for name, values in table.items():
            if name in columns:
                raise ValueError(
                    f"There is a column {name!r} already: rename that metric or task parameter of "
                    "the environment."
                )
            columns[name] = values
    return columns


def in_last_row(rows: Columns, values: Columns) -> Columns:
    """Add columns to rows, with the values [] in the last row and NaN in the others."""

    def last(value: jax.Array) -> jax.Array:
        return jnp.full(rows["step"].shape, jnp.nan, value.dtype).at[-1].set(value)

    return disjoint(rows, {name: last(value) for name, value in values.items()})


def _over(total: jax.Array, count: jax.Array) -> jax.Array:
    return jnp.where(count == 0, jnp.nan, total / jnp.maximum(count, 1))
