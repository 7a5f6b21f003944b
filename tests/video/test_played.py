"""`continual render`: whose policy is played, and what it does."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning import cli
from continual_learning.agents.common.normalizer import Normalizer
from continual_learning.analysis import load
from continual_learning.envs.robots.delayed import DelayedState
from continual_learning.envs.robots.physics import Body
from continual_learning.envs.robots.robot import RobotState
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, registry
from continual_learning.studies.runner import Lanes
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
from continual_learning.video import policy
from tests.video.ant import STEPS


def test_the_policy_is_that_of_the_checkpoint(study):
    trained = policy.trained(study, "adam", 1)
    assert (trained.method, trained.seed, trained.task) == ("adam", 1, 0)
    with np.load(study / "checkpoints" / "adam" / "000000" / "lane-0001.npz") as lane:
        for path, leaf in jax.tree_util.tree_leaves_with_path(trained.params):
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            np.testing.assert_array_equal(leaf, lane[f"params/policy/{name}"])
    rows = load(study)
    [friction] = rows[rows.seed == 1].friction
    assert policy.tasks_of(trained) == [
        {"friction": pytest.approx(friction), "gravity": 1, "strength": 1, "reward_scale": 1}
    ]
    other = policy.trained(study, "adam").last_task["friction"]  # of the first seed
    assert other == pytest.approx(rows[rows.seed == 0].friction.item()) != friction


def test_what_is_played(filmed):
    _, played = filmed
    assert played.q.shape == (2, STEPS, 15) and np.isfinite(played.q).all()
    np.testing.assert_allclose(played.q[0, 0], played.q[1, 0], atol=1e-6)
    assert np.abs(played.q[0] - played.q[1]).max() > 0.01  # friction matters
    for i in range(2):
        starts = np.flatnonzero(played.length[i] == 0)
        assert len(starts) >= 3  # episodes are at most 15 steps long
        np.testing.assert_array_equal(starts[1:], np.flatnonzero(played.ended[i, :-1]) + 1)
        heights = played.q[i, starts, 2]
        assert np.abs(heights - 0.55).max() < 0.2 and len(set(heights)) == len(starts)  # fresh
        for number, episode in enumerate(np.split(np.arange(STEPS), starts[1:]), start=1):
            assert (played.episode[i, episode] == number).all()
            sums = np.cumsum(played.reward[i, episode]) - played.reward[i, episode]
            np.testing.assert_allclose(played.total[i, episode], sums, atol=1e-3)
            moved = np.diff(played.q[i, episode, 0]) / 0.05
            assert np.abs(moved - played.speed[i, episode][1:]).mean() < 1


def test_actions_are_the_mean_ones_unless_asked_and_see_what_training_saw(study):
    trained = policy.trained(study, "adam")
    size = trained.env.observation_size
    seen = jnp.linspace(-1, 1, 2 * size).reshape(2, size)
    keys = jax.random.split(jax.random.key(0))
    mean, drawn = (policy.actor(trained, stochastic) for stochastic in (False, True))
    expected = mean(trained.params, (), keys[0], seen)
    assert expected.shape == (2, 8)
    np.testing.assert_array_equal(expected, mean(trained.params, (), keys[1], seen))
    first, second = (drawn(trained.params, (), key, seen) for key in keys)
    assert np.abs(first - expected).max() > 0.01 < np.abs(first - second).max()

    normalizer = Normalizer.start(size).update(3 * seen[::-1] + 1)
    normal = trained.experiment.override(normalize_observations=True)
    act = policy.actor(dataclasses.replace(trained, experiment=normal), False)
    found = act(trained.params, normalizer, keys[0], seen)
    by_hand = mean(trained.params, (), keys[0], normalizer.normalize(seen))
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    assert np.abs(found - expected).max() > 0.01


def test_delays_and_statistics(delayed):
    trained = policy.trained(delayed)
    assert (trained.seed, trained.task) == (5, 2)
    np.testing.assert_array_equal(trained.normalizer.mean, np.full(27, 3))
    assert trained.robot.mujoco_model.nq == 15
    [task] = policy.tasks_of(trained, changes={"action_delay": 4, "friction": 0.3})
    assert (task["action_delay"], task["friction"], task["observation_delay"]) == (4, 0.3, 0)
    for change in ({"action_delay": 9}, {"action_delay": 1.5}, {"observation_delay": 1}):
        with pytest.raises(StudyError, match=r"must be a whole number up to [80]; got"):
            policy.tasks_of(trained, changes=change)
    one = jnp.ones(3)
    body = policy._body(DelayedState(RobotState(Body(one, one, one, ()), ()), one, one))
    assert body.q is one and body.warm == ()


@pytest.fixture(scope="module")
def laned(tmp_path_factory):
    """A study whose lanes differ in two numbers beside the seed; in each, the policy says which."""
    path = tmp_path_factory.mktemp("study") / "laned"
    small = registry.get("slippery_ant").at_scale("smoke")
    small = small.override(policy_hidden=(8,), value_hidden=(8,))
    seeds, hyper = [5, 6, 5, 6, 5], {"max_reset": [0.1] * 4 + [0.3], "every": [10, 10, 20, 20, 10]}
    study = Study(small, ["cpr"], seeds, hyper)
    trainer = build.trainer(small, "cpr", None)
    state = jax.jit(jax.vmap(trainer.init, (0, None, None)))(Lanes(seeds).keys(), {}, ())
    policies = jax.tree.map(
        lambda x: jnp.zeros_like(x) + jnp.arange(5.0).reshape(5, *[1] * (x.ndim - 1)),
        state.params["policy"],
    )
    state = state._replace(
        iteration=jnp.ones(5, jnp.int32), params={**state.params, "policy": policies}
    )
    with Store.create(path, study.to_dict(), {}) as store:
        store.write_part("cpr", 0, {name: np.zeros(5, int) for name in ("seed", "step", "task")})
        store.save("cpr", 0, state)
    return path


@pytest.mark.parametrize(
    ("words", "lane", "name", "alike"),
    [
        ("", 0, "seed5_max_reset=0.1_every=10", 3),
        ("--seed 6", 1, "seed6_max_reset=0.1_every=10", 2),
        ("--seed 6 --lane every=20", 3, "seed6_max_reset=0.1_every=20", 1),
        ("--lane max_reset=0.3", 4, "seed5_max_reset=0.3_every=10", 1),
        ("--lane every=10 --lane max_reset=0.1", 0, "seed5_max_reset=0.1_every=10", 1),
        ("--lane every=10", 0, "seed5_max_reset=0.1_every=10", 2),
    ],
)
def test_lanes_are_chosen_by_their_numbers(
    laned, quickly, tmp_path, monkeypatch, capsys, words, lane, name, alike
):
    monkeypatch.chdir(tmp_path)
    line = f"render {laned} {words} --steps 1 --size 32x32 --renderer sketch"
    assert cli.main(line.split()) == 0
    assert [file.name for file in tmp_path.iterdir()] == [f"slippery_ant_cpr_{name}.mp4"]
    [(trained, *_)] = quickly
    assert {float(x.max()) for x in jax.tree.leaves(trained.params)} == {lane}
    said = capsys.readouterr().out
    told = re.sub(r"_(?=max_reset|every)", ", ", name).replace("seed", "seed ")
    assert f"slippery_ant, cpr, {told}, in task 0" in said
    more = " and these numbers" * ("--lane" in words)
    assert (f"{alike} lanes have seed {name[4]}{more}; this is the first" in said) == (alike > 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--seed 7", "Unknown seed of .* '7'. Valid: 5, 6"),
        ("--lane every=30", "Unknown every of the lanes of .* '30'. Valid: 10, 20"),
        ("--lane evry=10", "Did you mean 'every'.*Valid: max_reset, every"),
        ("--lane every=10 --lane every=20", "--lane: every is given twice"),
        ("--seed 6 --lane max_reset=0.3", "has no lane with seed 6 and max_reset=0.3"),
    ],
)
def test_lanes_that_are_not_there(laned, quickly, capsys, words, message):
    assert cli.main(["render", str(laned), *words.split()]) == cli.FAILED
    assert re.search(message, capsys.readouterr().err)


def test_friction_that_never_acts(study):
    trained = policy.trained(study, "adam")
    released = trained.experiment.override(friction="as_released")
    trained = dataclasses.replace(trained, experiment=released)
    assert policy.tasks_of(trained)[0]["friction"] == 1
    with pytest.raises(StudyError, match="must be 1, for in this study it never acts"):
        policy.tasks_of(trained, [0.5])
