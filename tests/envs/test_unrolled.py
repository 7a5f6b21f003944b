"""Robots of the unrolled engine: MuJoCo's step, and Brax's observations, rewards and endings."""

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from continual_learning.envs.robots import ROBOTS, Ant
from continual_learning.envs.robots.physics import MJX, Body
from continual_learning.physics import CPU_OPTIONS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from brax import base
    from brax.envs import ant as brax_ant
    from brax.envs import half_cheetah, hopper, humanoid, walker2d

THEIRS = {
    "ant": brax_ant.Ant,
    "humanoid": humanoid.Humanoid,
    "half_cheetah": half_cheetah.Halfcheetah,
    "hopper": hopper.Hopper,
    "walker2d": walker2d.Walker2d,
}
QUICK = ("ant", "hopper")
every_robot = pytest.mark.parametrize(
    "robot",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ROBOTS],
)
TASKS = {  # of four lanes
    "friction": np.array([0.02, 2.0, 1.0, 1.0]),
    "gravity": np.array([1.0, 1.0, 0.5, 1.0]),
    "strength": np.array([1.0, 1.0, 1.0, 0.5]),
}
LANES, ENVS = 4, 7
BAD = 6  # the environment whose action is not a number


@pytest.fixture(autouse=True)
def promotion():
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        yield


@cache
def stepped(robot):
    """(robot, states, controls, states reached, transitions), leaves [lanes, envs, …].

    Lanes differ by their tasks alone. All of them are one program, in which the engine is called
    once.
    """
    env = ROBOTS[robot]("unrolled")
    free = env.mujoco_model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    keys = jax.random.split(jax.random.key(3), ENVS)
    actions = jax.random.normal(jax.random.key(4), (ENVS, env.action_size)).at[BAD].set(jnp.nan)
    # As it starts, in the ground, deep in it, in the air, on its back, falling, as it starts.
    lift = jnp.array([0.0, -0.1, -0.3, 1.0, -0.5, 0.5, 0.0])

    def begin(key, lift, number):
        q, qd = env._first(key)
        q = q.at[2 if free else 1].add(lift)
        turn, over = (slice(3, 7), jnp.eye(4)[1]) if free else (2, 3.0)
        q = q.at[turn].set(jnp.where(lift == -0.5, over, q[turn]))
        return env._engine.start({}, q, qd + 0.3 * number)

    def lane(keys, actions, task):
        bodies = jax.vmap(begin)(keys, lift, jnp.arange(ENVS))

        def one(key, body, action):
            memory = env._remember(env._system, body, jnp.zeros(env.action_size))
            state = env.reset(key, task)._replace(body=body, memory=memory)
            return state, *env.step(key, state, action, task)

        return jax.vmap(one)(keys, bodies, actions)

    tasks = {name: jnp.asarray(values, jnp.float32) for name, values in TASKS.items()}
    tasks["reward_scale"] = jnp.ones(LANES)
    program = jax.jit(jax.vmap(lane, (None, None, 0)))
    states, reached, transition = program.lower(keys, actions, tasks).compile(CPU_OPTIONS)(
        keys, actions, tasks
    )
    return env, states, actions, reached, transition


@every_robot
def test_a_step_is_that_of_mujoco(robot):
    """First states with a foot in the ground among them."""
    env, states, actions, reached, transition = stepped(robot)
    model = env._unrolled_model(env._system)
    gravity, gear = model.opt.gravity.copy(), model.actuator_gear.copy()
    data = mujoco.MjData(model)
    wrong = []
    for lane, number in np.ndindex(LANES, BAD):
        mujoco.mj_resetData(model, data)
        model.geom_friction[:, 0] = TASKS["friction"][lane]
        model.opt.gravity[:] = gravity * TASKS["gravity"][lane]
        model.actuator_gear[:] = gear * TASKS["strength"][lane]
        data.qpos[:] = states.body.q[lane, number]
        data.qvel[:] = states.body.qd[lane, number]
        data.ctrl[:] = env._control(actions[number])
        for _ in range(env.frames):
            mujoco.mj_step(model, data)
        found = reached.body.qd[lane, number]
        wrong.append(np.abs(found - data.qvel).max() / np.abs(data.qvel).max())
        if wrong[-1] < 1e-3:
            found = reached.body.q[lane, number]
            np.testing.assert_allclose(found, data.qpos, rtol=1e-3, atol=1e-3)
    # In float32 the line search may decide otherwise where two steps are about as good.
    assert np.median(wrong) < 1e-4 and np.mean(np.array(wrong) < 1e-3) > 0.8
    assert transition.metrics["diverged"][:, :BAD].sum() == 0


@every_robot
def test_observations_rewards_and_endings_are_those_of_brax(robot):
    """As functions of the states before and after, with the links where MuJoCo has them."""
    env, states, actions, reached, transition = stepped(robot)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = THEIRS[robot](backend="mjx")

    def pipeline(q, qd):
        x, xd = MJX(1).links(env._system, Body(q, qd, qd, (q, qd)))
        return base.State(q=q, qd=qd, x=x, xd=xd, contact=None)

    names = ["forward", "survive", "ctrl", "contact", "linvel", "quadctrl", "alive"]
    metrics = [f"reward_{name}" for name in names] + ["forward_reward", "distance_from_origin"]
    metrics += [f"{axis}_{what}" for axis in "xy" for what in ("position", "velocity")]
    zero = jnp.zeros(())

    def brax(before, after, action):
        theirs.pipeline_step = lambda state, action: pipeline(after.q, after.qd)
        first = pipeline(before.q, before.qd)
        state = brax_ant.State(first, zero, zero, zero, dict.fromkeys(metrics, zero))
        after_step = theirs.step(state, action)
        return after_step.obs, after_step.reward, after_step.done

    every = jax.jit(jax.vmap(jax.vmap(brax), (0, 0, None)))
    theirs_found = every(states.body, reached.body, actions)
    # Brax knows nothing of motors that pull half as strong, which are observed.
    observation, reward, done = (x[:3, :BAD] for x in theirs_found)
    found = jax.tree.map(lambda x: x[:3, :BAD], transition)
    np.testing.assert_allclose(found.observation, observation, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(found.reward, reward, rtol=1e-4, atol=2e-3)
    np.testing.assert_array_equal(found.terminated, done.astype(bool))
    assert not done.all() and done.any() == (robot != "half_cheetah")  # which never falls


def test_what_a_task_changes_acts():
    env, _, _, reached, _ = stepped("ant")
    qd = np.asarray(reached.body.qd)
    assert np.abs(qd[0, 1] - qd[1, 1]).max() > 1e-2  # friction, in the ground
    np.testing.assert_array_equal(qd[1, 3], qd[0, 3])  # not in the air
    np.testing.assert_allclose(qd[2, 3, 2] - qd[0, 3, 2], 0.5 * 9.81 * env.dt, rtol=1e-3)
    assert np.abs(qd[3, 3, 6:] - qd[0, 3, 6:]).max() > 0.1  # motors


def test_as_released_the_friction_is_that_of_the_model():
    task = {"friction": 0.02, "gravity": 1.0, "strength": 1.0}
    assert Ant("unrolled")._world(task) == task
    assert set(Ant("unrolled", "as_released")._world(task)) == {"gravity", "strength"}


def test_a_state_that_diverges_ends_its_episode():
    _, states, _, reached, transition = stepped("ant")
    bad = jax.tree.map(lambda x: x[:, BAD], transition)
    assert (bad.metrics["diverged"] == 1).all() and bad.terminated.all()
    assert not bad.reward.any() and not bad.observation.any()
    for one, other in zip(jax.tree.leaves(reached), jax.tree.leaves(states), strict=True):
        np.testing.assert_array_equal(one[:, BAD], other[:, BAD])
