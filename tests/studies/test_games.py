"""SAC on MinAtar as studies: presets, errors, the order of games, one program, exact resume."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from continual_learning.agents.sac import train as agent
from continual_learning.analysis import load
from continual_learning.envs import minatar
from continual_learning.schema.errors import StudyError
from continual_learning.schema.names import GAMES
from continual_learning.studies import build, launch, registry, spec
from continual_learning.studies.options import RunOptions
from tests.studies.flat import flat
from tests.studies.sharing import share_program

TINY = {
    "games": ("breakout", "freeway"),
    "tasks": 3,
    "environments": 2,
    "episode_length": 5,
    "vector_steps_per_task": 8,
    "steps_per_row": 4,
    "rows_per_chunk": 1,
    "capacity": 12,
    "batch": 4,
    "replay_ratio": 2,
    "learning_starts": 6,
    "eval_every": 8,
    "eval_episodes": 2,
    "channels": (2,),
    "hidden": (4,),
}


def tiny(**fields):
    return spec.from_dict(spec.to_dict(registry.get("continual_minatar"))).override(
        **(TINY | fields)
    )


def test_the_preset_is_the_papers():
    each = flat(registry.get("continual_minatar"))
    assert each.games == ("space_invaders", "asterix", "seaquest")
    assert (each.tasks, each.seeds, each.environments) == (3, 5, 12)
    assert each.steps_per_task == 1_500_000 and each.steps == 4_500_000
    assert (each.capacity, each.batch, each.replay_ratio) == (1_000_000, 256, 4)
    assert (each.learning_starts, each.discount, each.tau) == (5000, 0.99, 0.005)
    assert (each.initial_alpha, each.alpha_learning_rate) == (0.2, 3e-4)
    assert (each.channels, each.hidden, each.init) == ((16,), (128,), "he_uniform")
    assert each.reset_replay and each.reset_optimizers
    assert each.reset_targets and each.reset_alpha
    assert (each.eval_every * each.environments, each.eval_episodes) == (60_000, 10)
    assert {(m.learning_rate, m.clip) for m in each.methods.values()} == {(3e-4, 0.5)}


def test_games_are_those_of_minatar():
    assert list(GAMES) == list(minatar.GAMES)


def stream_of(experiment):
    return experiment.stream.build(None, experiment.tasks).stream


def order(experiment):
    stream = stream_of(experiment)
    tasks = [stream.task(jax.random.key(0), jnp.int32(i)) for i in range(experiment.tasks)]
    return [stream.environment.games[int(task["game"])] for task in tasks]


def test_games_come_in_their_order_over_and_over():
    assert order(registry.get("continual_minatar")) == ["space_invaders", "asterix", "seaquest"]
    assert order(registry.get("minatar_five")) == list(GAMES)
    assert order(registry.get("minatar_cycle")) == [*GAMES[:3]] * 5
    assert order(tiny(games=("freeway", "breakout", "freeway"), tasks=4)) == [
        "freeway", "breakout", "freeway", "freeway"
    ]  # fmt: skip


def test_a_game_that_is_never_met_is_not_there():
    stream = stream_of(tiny(games=GAMES, tasks=2))
    assert stream.environment.games == ("space_invaders", "asterix")
    assert stream.distinct(2) == {"space_invaders": 0, "asterix": 1}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"games": ("pong",)}, "Unknown game 'pong'.*Valid: space_invaders"),
        ({"games": ()}, "games must name at least one of space_invaders"),
        ({"games": (1,)}, "games must be a list of names"),
        ({"channels": ()}, "channels must name"),
        ({"sticky": 1.0}, "sticky must be from 0 to below 1"),
        ({"tau": 1.5}, "tau must be at most 1"),
        ({"learning_starts": 17}, "learning_starts must be from 0 to the 16 steps"),
        ({"capacity": 1}, "capacity must be at least the 2 environments"),
        ({"eval_every": 6}, "eval_every must be 0, or a multiple of .* = 4 .*task, 8; got 6"),
        ({"eval_every": 16}, "that divides vector_steps_per_task, 8; got 16"),
        ({"steps_per_row": 3}, "= 3 must divide vector_steps_per_task, 8"),
    ],
)
def test_wrong_values(fields, says):
    with pytest.raises(StudyError, match=says):
        tiny(**fields)


def test_per_sample_scores():
    """Of convolutions too, over lanes and critics."""
    methods = {"cpr.score": "per_sample"}
    program = build.trainer(tiny().override(**methods), "cpr", None)
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    state = jax.eval_shape(jax.vmap(program.init, (0, None, None)), keys, {}, ())
    after, rows = jax.eval_shape(jax.vmap(program.chunk, (0, None, None)), state, {}, ())
    assert after == state and rows["step"].shape == (2, 1)


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """A study: through, and stopped after its first chunk; and how often SAC was traced."""
    folder = tmp_path_factory.mktemp("studies")
    traced, statistics = [], agent.statistics

    def counted(*args):
        traced.append(1)
        return statistics(*args)

    experiment = tiny(**{"cpr.every": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "statistics", counted)
        share_program(patch)
        whole, parts = folder / "whole", folder / "parts"
        assert launch.run(experiment, ["cpr"], [0, 3], whole, RunOptions(quiet=True)) == 0
        count = len(traced)
        code = launch.run(
            experiment, ["cpr"], [0, 3], parts, RunOptions(quiet=True, time_limit=1e-9)
        )
        assert code == launch.REQUEUE
        assert launch.resume(parts, RunOptions(quiet=True, checkpoint_seconds=0.0)) == 0
    beside = sorted(f.name for f in parts.glob("checkpoints/cpr/*"))
    return load(whole), load(parts), count, beside


def test_stopped_and_resumed_equals_through(studies):
    through, resumed, _, beside = studies
    pd.testing.assert_frame_equal(through, resumed, check_exact=True)
    # The replay is cleared at the end of a task, as chunks 3 and 5 are.
    assert beside == ["000004", "000004.rows", "000005"]


def test_one_trace_serves_all_games_and_seeds(studies):
    assert studies[2] == 1


def test_rows(studies):
    rows = studies[0]
    one = rows[rows.seed == 3]
    assert one.step.tolist() == [8, 16, 24, 32, 40, 48] and one.task.tolist() == [0, 0, 1, 1, 2, 2]
    assert one.game.tolist() == [0, 0, 1, 1, 0, 0]
    assert (rows.episodes_ended > 0).any() and rows.critic_1_units_reset.max() > 0
    returns = ["episode_return", "episode_length", "latest_return", *rows.filter(like="eval_")]
    assert np.isfinite(rows.drop(columns=returns).iloc[:, 4:]).all(axis=None)


def test_evaluations(studies):
    """At the end of each task, on the games met so far."""
    rows = studies[0][studies[0].seed == 3]
    none = [False] * 2
    assert np.isfinite(rows.eval_seen).tolist() == [False, True] * 3
    assert np.isfinite(rows.eval_breakout).tolist() == [False, True] * 3
    assert np.isfinite(rows.eval_freeway).tolist() == [*none, *[False, True] * 2]
    both = rows[["eval_breakout", "eval_freeway"]].mean(axis=1)
    np.testing.assert_allclose(rows.eval_seen, both, rtol=1e-6)
