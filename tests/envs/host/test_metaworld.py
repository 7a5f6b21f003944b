"""MetaWorld through our wrapper: its experts, its goals, its episodes."""

import numpy as np
import pytest

from continual_learning.envs.host import MT10, MetaWorld, Pool

metaworld = pytest.importorskip("metaworld")
from metaworld.policies import ENV_POLICY_MAP  # noqa: E402

QUICK = ("reach", "drawer-close")
ALL = [task if task in QUICK else pytest.param(task, marks=pytest.mark.slow) for task in MT10]


def make(task, seed=3, **options):
    return MetaWorld.mt1(task, **options).make(0, seed)


def solved(env, task, seed):
    """What the expert's episode said at its end."""
    expert = ENV_POLICY_MAP[f"{task}-v3"]()
    observation, steps = env.reset(seed), 0
    while True:
        # As the pool shows it.
        observation = observation.astype(np.float32).astype(np.float64)
        action = np.clip(expert.get_action(observation[:39]), -1, 1)
        step = env.step(action.astype(np.float32))
        observation, steps = step.observation, steps + 1
        if step.truncated:
            assert steps == 500 and not step.terminated
            return step.metrics


def test_the_tasks_are_those_of_mt10_in_its_order():
    from metaworld.env_dict import MT10_V3

    assert [f"{task}-v3" for task in MT10] == list(MT10_V3)


@pytest.mark.filterwarnings("ignore:Constant.s. may be too high")
@pytest.mark.parametrize("task", ALL)
def test_experts_solve_the_tasks(task):
    env, episodes = make(task), 1 if task in QUICK else 5
    ends = [solved(env, task, seed) for seed in range(episodes)]
    assert np.mean([end["success_ever"] for end in ends]) >= 0.8
    if task in QUICK:
        assert ends[0] == {"success": 1.0, "success_ever": 1.0}


@pytest.mark.parametrize("task", ALL)
def test_steps_are_metaworlds_own(task):
    """Observations, rewards and successes of the official benchmark with the same goal."""
    ours = make(task, seed=3)
    official = metaworld.MT1(f"{task}-v3", seed=3)
    (theirs,) = (cls() for cls in official.train_classes.values())
    seen = ours.reset(5)
    theirs.set_task(official.train_tasks[ours._goal])
    np.testing.assert_array_equal(seen, theirs.reset()[0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1, 1, 4).astype(np.float32)
        step, (seen, reward, *_, info) = ours.step(action), theirs.step(action)
        np.testing.assert_array_equal(step.observation, seen)
        assert step.reward == reward and step.metrics["success"] == info["success"]


@pytest.mark.parametrize("task", ALL)
def test_resumed_as_if_never_stopped(task):
    env, rng = make(task), np.random.default_rng(0)
    moves = rng.uniform(-1, 1, (60, 4)).astype(np.float32)
    moves[:, 2] -= 0.5  # down, where things are
    env.reset(1)
    for move in moves[:30]:
        env.step(move)
    state = np.zeros(MetaWorld().state_size)
    state[: env.get_state().size] = env.get_state()
    expected = [env.step(move) for move in moves[30:]]
    other = make(task)
    other.reset(2)
    other.step(moves[0])
    for again in (env, other):
        again.set_state(state)
        for move, step in zip(moves[30:], expected, strict=True):
            found = again.step(move)
            np.testing.assert_array_equal(found.observation, step.observation)
            assert found[1:] == step[1:]


def test_a_state_fits_for_every_task():
    import mujoco
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    largest = ALL_V3_ENVIRONMENTS["coffee-pull-v3"]()
    size = mujoco.mj_stateSize(largest.model, mujoco.mjtState.mjSTATE_INTEGRATION)
    assert 3 + 18 + size == 331 <= MetaWorld().state_size


def test_an_episode_depends_on_its_seed_alone():
    env, other = make("reach"), make("reach")
    first = env.reset(8)
    goals = {tuple(env.reset(seed)[36:39]) for seed in range(20)}
    assert len(goals) > 10
    env.step(np.ones(4, np.float32))
    np.testing.assert_array_equal(env.reset(8), first)
    np.testing.assert_array_equal(other.reset(8), first)
    assert not np.array_equal(make("reach", seed=4).reset(8)[36:39], first[36:39])


def test_an_environment_may_keep_its_goal():
    """Goal i in environment i, after resets and resumes too; of the same seed, the same goals."""
    stream = MetaWorld.mt1("reach", goals="fixed")
    official = metaworld.MT1("reach-v3", seed=3).train_tasks
    (make_official,) = metaworld.MT1("reach-v3", seed=3).train_classes.values()
    for number in (0, 4, 51):
        env, theirs = stream.make(0, 3, number), make_official()
        theirs.set_task(official[number % 50])
        expected = theirs.reset()[0][36:39]
        for seed in range(3):
            np.testing.assert_array_equal(env.reset(seed)[36:39], expected)
        env.set_state(env.get_state())
        step = env.step(np.zeros(4, np.float32))
        np.testing.assert_array_equal(step.observation[36:39], expected)
    with Pool(stream, [3], 2, workers=1) as pool, Pool(stream, [3], 3, workers=1) as evaluation:
        seen = pool.enter(0)[0, :, 36:39]
        assert not np.array_equal(seen[0], seen[1])
        for task in (1, 7):  # the same environments, in later evaluations
            np.testing.assert_array_equal(evaluation.enter(task)[0, :2, 36:39], seen)


def test_the_goal_can_be_hidden():
    shown, hidden = make("reach"), make("reach", goal="hidden")
    move = np.zeros(4, np.float32)
    for one, other in (
        (shown.reset(1), hidden.reset(1)),
        (shown.step(move).observation, hidden.step(move).observation),
    ):
        assert one[36:39].all() and not other[36:39].any()
        np.testing.assert_array_equal(one[:36], other[:36])


def test_success_at_the_end_is_not_success_ever():
    """A drawer that is closed for one step."""
    env = make("drawer-close")
    env.reset(0)
    env._env.step = lambda action: (np.zeros(39), 0.0, False, False, {"success": action[0]})
    told = [env.step(np.full(4, success)).metrics for success in (0.0, 1.0, 0.0)]
    assert [each["success"] for each in told] == [0, 1, 0]
    assert [each["success_ever"] for each in told] == [0, 1, 1]
    assert bool(env.get_state()[2])
    env.reset(0)
    assert not env.get_state()[2]


def test_episodes_of_a_pool():
    """Short ones of the second of two tasks: truncated, never terminated, restarted right."""
    stream = MetaWorld(QUICK, length=2)
    assert stream.observation_size == 41 and MetaWorld().observation_size == 49
    assert MetaWorld.mt1("reach").observation_size == 39
    with Pool(stream, [3], 2, workers=1) as pool:
        first = pool.enter(1)
        moves = np.full((2, 1, 2, 4), 0.5, np.float32)
        before, last = (pool.step(move) for move in moves)
        assert not before.ended.any()
        assert last.truncated.all() and not last.terminated.any()
        assert (last.episode_length == 2).all()
        np.testing.assert_array_equal(last.episode_return, before.reward + last.reward)
        # The task's number, in what is reached and what begins.
        for seen in (first, last.observation, pool.observation):
            np.testing.assert_array_equal(seen[..., 39:], [[[0, 1], [0, 1]]])
        # The final observation follows the one before; the next begins with itself.
        np.testing.assert_array_equal(last.observation[..., 18:36], before.observation[..., :18])
        np.testing.assert_array_equal(pool.observation[..., 18:36], pool.observation[..., :18])
        assert not np.array_equal(last.observation, pool.observation)
        # Environments have goals of their own.
        assert not np.array_equal(first[0, 0, 36:39], first[0, 1, 36:39])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"goal": "seen"}, "goal must be 'shown' or 'hidden', got 'seen'"),
        ({"goals": "same"}, "goals must be 'fresh' or 'fixed', got 'same'"),
        ({"length": 501}, "length must be 1 to 500, got 501"),
        ({"tasks": ()}, "tasks must be one or more names"),
    ],
)
def test_wrong_options_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        MetaWorld(**options)


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match=r"no task 'fly'. Valid: .*reach"):
        make("fly")


def test_without_metaworld_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'plasticax\[metaworld\]'"):
        MetaWorld()
