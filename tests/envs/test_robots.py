"""Brax's robots on ground that changes: equal to Brax where nothing changes, and it really slips.

Compiling the physics is what these tests cost, so everything about a robot shares one program.
"""

import re
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.envs.robots import BRAX_SOLVER, ROBOTS, Ant, Solver, robot
from tests.envs.toys import usual

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from brax.envs import ant as brax_ant
    from brax.envs import half_cheetah, hopper, humanoid, walker2d

# Brax's code relies on rank promotion.
pytestmark = pytest.mark.usefixtures("promotion")
slow = pytest.mark.slow

THEIRS = {
    "ant": brax_ant.Ant,
    "humanoid": humanoid.Humanoid,
    "half_cheetah": half_cheetah.Halfcheetah,
    "hopper": hopper.Hopper,
    "walker2d": walker2d.Walker2d,
}
PLANAR_SOLVER = Solver("pyramidal", 4, 50)  # as in Brax's files
STEPS = 60


@pytest.fixture
def promotion():
    with jax.numpy_rank_promotion("allow"):
        yield


@cache
def program(robot: str, physics: str, solver: Solver | None, friction: str = "applied"):
    """(robot, {parameter: [lanes]} × actions [steps, act] -> first and [lanes, steps] arrays)."""
    env = ROBOTS[robot](physics, friction, solver)

    def lane(task, actions):
        key = jax.random.PRNGKey(3)
        first = env.reset(key, task)

        def step(state, action):
            state, reached = env.step(key, state, action, task)
            return state, (state, reached)

        _, (states, reached) = jax.lax.scan(step, first, actions)
        return (
            first,
            env.observe(first, task),
            states,
            reached,
            jax.vmap(env.observe, (0, None))(states, task),
        )

    return env, jax.jit(jax.vmap(lane, (0, None)))


def tasks(env, **changes):
    """{parameter: [lanes]}, usual values but for `changes`."""
    lanes = len(next(iter(changes.values())))
    usually = {name: [value] * lanes for name, value in env.parameters.items()}
    return {name: jnp.asarray(v, jnp.float32) for name, v in (usually | changes).items()}


def some_actions(env, scale=0.7):
    rng = np.random.default_rng(0)
    return jnp.asarray(scale * rng.normal(size=(STEPS, env.action_size)), jnp.float32)


FRICTIONS = [0.02, 2.0, 1.0, 1.0]

CASES = [
    ("ant", "generalized", None),
    ("ant", "mjx", None),
    ("humanoid", "generalized", None),
    pytest.param(("humanoid", "mjx", None), marks=slow),
]


@pytest.fixture(params=CASES)
def slipped(request):
    """(robot, what happened at frictions 0.02, 2, 1 and 1)."""
    env, run = program(*request.param)
    return env, run(tasks(env, friction=FRICTIONS), some_actions(env))


def test_friction_acts(slipped):
    _, (_, first, states, _, _) = slipped
    q = np.asarray(states.body.q)
    np.testing.assert_array_equal(q[2], q[3])
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(q[a] - q[b]).max() > 1e-3
    assert np.ptp(np.asarray(first), axis=0).max() < 1e-5  # the same start


def test_sizes_and_finite_numbers(slipped):
    env, (_, first, _, reached, _) = slipped
    assert first.shape == (4, env.observation_size)
    assert reached.observation.shape == (4, STEPS, env.observation_size)
    assert np.isfinite(reached.observation).all() and np.isfinite(reached.reward).all()
    assert reached.metrics["diverged"].sum() == 0


def test_what_is_observed_follows_from_the_state_that_is_kept(slipped):
    _, (_, _, _, reached, again) = slipped
    np.testing.assert_allclose(again, reached.observation, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("robot", "physics"),
    [
        ("ant", "generalized"),
        pytest.param("humanoid", "generalized", marks=slow),
        pytest.param("ant", "mjx", marks=slow),
        pytest.param("humanoid", "mjx", marks=slow),
        pytest.param("half_cheetah", "generalized", marks=slow),
        pytest.param("half_cheetah", "mjx", marks=slow),
        pytest.param("hopper", "generalized", marks=slow),
        pytest.param("walker2d", "mjx", marks=slow),
    ],
)
def test_equal_to_brax_step_by_step_at_its_friction(robot, physics):
    """With a solver that converges: of Brax's single iteration, rounding decides the length.

    Then the accelerations differ by percents, in float64 as well.
    """
    own = BRAX_SOLVER if robot in ("ant", "humanoid") else PLANAR_SOLVER
    settings = own._replace(iterations=20, line_search=20) if physics == "mjx" else None
    ours = ROBOTS[robot](physics, "as_released", settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = THEIRS[robot](backend=physics)
    if physics == "mjx":
        theirs.sys = theirs.sys.tree_replace({"opt.iterations": 20, "opt.ls_iterations": 20})
    key, task = jax.random.PRNGKey(3), usual(ours)
    # Optimized as in a study: the less programs round alike, the sooner they part.
    compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 3})
    state, mine = compiled(theirs.reset)(key), compiled(ours.reset)(key, task)
    first = compiled(ours.observe)(mine, task)
    np.testing.assert_allclose(first, state.obs, rtol=1e-5, atol=1e-5)
    their_step, our_step = compiled(theirs.step), compiled(ours.step)
    for action in some_actions(ours)[:12]:  # later, rounding has grown
        state = their_step(state, action)
        mine, reached = our_step(key, mine, action, task)
        np.testing.assert_allclose(reached.observation, state.obs, rtol=1e-3, atol=2e-3)
        np.testing.assert_allclose(reached.reward, state.reward, rtol=1e-3, atol=1e-3)
        assert bool(reached.terminated) == bool(state.done)


@pytest.mark.parametrize("robot", ["ant", "humanoid"])
@pytest.mark.parametrize("physics", ["generalized", "mjx"])
def test_as_released_nothing_changes(robot, physics):
    """The published code puts the friction where neither engine reads it."""
    env = ROBOTS[robot](physics, "as_released")
    applied = ROBOTS[robot](physics)
    for mu in (0.02, 2.0):
        ground = env.system(usual(env, friction=mu)).geom_friction
        np.testing.assert_array_equal(ground, env._system.geom_friction)
        assert float(ground[0, 0]) == 1.0
        np.testing.assert_array_equal(
            applied.system(usual(env, friction=mu)).geom_friction[:, 0], np.float32(mu)
        )


@slow
@pytest.mark.parametrize("robot", ["ant", "humanoid"])
@pytest.mark.parametrize("physics", ["generalized", "mjx"])
def test_as_released_trajectories_are_equal(robot, physics):
    env, run = program(robot, physics, None, "as_released")
    _, _, states, _, _ = run(tasks(env, friction=FRICTIONS), some_actions(env))
    np.testing.assert_array_equal(states.body.q[0], states.body.q[1])


def test_gravity_strength_and_reward_scale_act():
    env, run = program("ant", "generalized", None)
    changes = {
        "gravity": [1.0, 0.5, 1.0, 1.0],
        "strength": [1.0, 1.0, 0.5, 1.0],
        "reward_scale": [1.0, 1.0, 1.0, 10.0],
    }
    _, _, states, reached, _ = run(tasks(env, **changes), some_actions(env))
    q = np.asarray(states.body.q)
    assert np.abs(q[1] - q[0]).max() > 1e-3 and np.abs(q[2] - q[0]).max() > 1e-3
    np.testing.assert_array_equal(q[3], q[0])
    np.testing.assert_allclose(reached.reward[3], 10 * reached.reward[0], rtol=1e-6)


def test_a_state_that_diverges_ends_its_episode_and_poisons_nothing():
    env, run = program("ant", "generalized", None)
    actions = some_actions(env).at[5].set(jnp.nan)
    _, _, states, reached, _ = run(tasks(env, friction=FRICTIONS), actions)
    assert reached.metrics["diverged"][:, 5].tolist() == [1.0] * 4
    assert reached.metrics["diverged"].sum() == 4  # it is where it was before, and goes on
    assert reached.terminated[:, 5].all()
    for values in (reached.observation, reached.reward, *jax.tree.leaves(states)):
        assert np.isfinite(np.asarray(values)).all()
    assert (reached.reward[:, 5] == 0).all()


@pytest.mark.parametrize("precision", ["float32", "default"])
def test_matrix_products_of_the_physics_are_exact_unless_told(precision):
    """On a CPU they always are, so it is read off the program."""
    env = Ant("mjx", precision=precision)
    key, task = jax.random.key(0), usual(env)
    state = jax.eval_shape(env.reset, key, task)
    action = jnp.zeros(env.action_size)
    told = str(jax.make_jaxpr(env.step)(key, state, action, task))
    wanted = {"float32": "HIGHEST", "default": "DEFAULT"}[precision]
    assert set(re.findall(r"precision=\(Precision.(\w+)", told)) == {wanted}
    assert "precision=None" not in told


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"physics": "spring"}, "physics must be one of generalized, mjx, unrolled; got 'spring'"),
        ({"friction": "none"}, "friction must be one of applied, as_released"),
        ({"physics": "mjx", "precision": "tf32"}, "precision must be one of float32, default"),
        ({"physics": "generalized", "solver": BRAX_SOLVER}, "settings of MuJoCo"),
    ],
)
def test_wrong_settings(wrong, says):
    with pytest.raises(ValueError, match=says):
        Ant(**wrong)


def test_robots_are_made_quietly_in_several_threads(monkeypatch):
    load, inside, most = robot.mjcf.load, [], []

    def noted(path):
        inside.append(path)
        most.append(len(inside))
        time.sleep(0.05)
        system = load(path)
        inside.pop()
        return system

    monkeypatch.setattr(robot.mjcf, "load", noted)
    filters = list(warnings.filters)
    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(lambda _: Ant("mjx"), range(3)))  # a warning would be an error
    assert [each.action_size for each in made] == [8, 8, 8] and most == [1, 1, 1]
    assert warnings.filters == filters
