"""PPO on robots as studies: presets, errors, one program, exact resume, small checkpoints."""

from typing import get_args

import jax
import numpy as np
import pandas as pd
import pytest

from continual_learning.agents.ppo import learner as updates
from continual_learning.agents.ppo import train as agent
from continual_learning.analysis import load
from continual_learning.envs.catalog.robot import PARAMETERS
from continual_learning.envs.draws import LogUniform, parse_changes
from continual_learning.envs.episodes import Episodes
from continual_learning.envs.robots import ROBOTS, Ant, Humanoid
from continual_learning.physics import CPU_OPTIONS
from continual_learning.schema.errors import StudyError
from continual_learning.schema.names import RobotName
from continual_learning.studies import build, launch, registry, spec
from continual_learning.studies.experiment import MethodSpec
from continual_learning.studies.options import RunOptions
from tests.studies.flat import flat
from tests.studies.sharing import share_program

TINY = {
    "tasks": 2,
    "iterations_per_task": 2,
    "iterations_per_chunk": 1,
    "environments": 4,
    "episode_length": 6,
    "rollout": 8,
    "minibatches": 2,
    "epochs": 1,
    "policy_hidden": (8,),
    "value_hidden": (8,),
}


def tiny(name="slippery_ant", **fields):
    return spec.from_dict(spec.to_dict(registry.get(name))).override(**(TINY | fields))


@pytest.fixture(autouse=True)
def promotion():
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        yield


def test_the_presets_are_the_papers():
    ant, humanoid = (flat(registry.get(name)) for name in ("slippery_ant", "slippery_humanoid"))
    assert (ant.physics, humanoid.physics) == ("unrolled", "unrolled")  # ours, and is friction
    assert ant.rollout * ant.environments == 196_608
    assert humanoid.rollout * humanoid.environments == 327_680
    assert (ant.iterations_per_task, humanoid.iterations_per_task) == (102, 62)
    assert ant.steps_per_task == pytest.approx(20e6, rel=0.02)
    assert humanoid.steps_per_task == pytest.approx(20e6, rel=0.02)
    for each in (ant, humanoid):
        assert (each.tasks, each.seeds, each.environments, each.episode_length) == (
            (20, 15, 2048, 1000)
        )
        assert (each.epochs, each.minibatches, each.discount, each.gae_lambda) == (
            (4, 32, 0.97, 0.95)
        )
        assert (each.entropy_coefficient, each.clip_ratio, each.value_coefficient) == (
            (1e-3, 0.2, 0.5)
        )
        assert each.changes == "friction = log_uniform(0.02, 2.0)"
        assert each.value_hidden == (256,) * 5 and each.reward_floor == -5.0
        assert {m.clip for m in each.methods.values()} == {0.5}
    assert ant.policy_hidden == (32,) * 4 and humanoid.policy_hidden == (128,) * 4
    assert (ant.reward_scale, humanoid.reward_scale) == (1.0, 0.1)
    assert (ant.normalize_observations, humanoid.normalize_observations) == (False, True)
    assert {m.learning_rate for m in ant.methods.values()} == {1e-3}
    assert {m.learning_rate for m in humanoid.methods.values()} == {3e-4}
    chosen = {
        name: (dict(ant.methods[name].options), dict(humanoid.methods[name].options))
        for name in ("cpr", "cbp", "redo", "regrama", "shrink_perturb")
    }
    assert [o["max_reset"] for o in chosen["cpr"]] == [0.015, 0.05]
    assert [o["replacement_rate"] for o in chosen["cbp"]] == [3e-3, 2.5e-3]
    assert [o["threshold"] for o in chosen["redo"]] == [0.65, 0.5]
    assert [o["threshold"] for o in chosen["regrama"]] == [0.25, 0.15]
    assert all(o["every"] == 1000 for o in (*chosen["cpr"], *chosen["shrink_perturb"]))
    assert all(o["every"] == 100 for o in (*chosen["redo"], *chosen["regrama"]))


def test_the_trainer_of_2025_differs_in_what_its_file_says():
    published = {"physics": "generalized", "friction": "as_released"}
    released = registry.get("slippery_ant").override(**published)
    then = registry.get("slippery_ant_2025")
    assert (then.value("action_limit"), then.value("log_prob_of")) == (5.0, "sampled")
    assert (then.value("reward_floor"), then.value("reward_ceiling")) == (-5.0, 10.0)
    assert then.methods["cpr"].options["init"] == "he_uniform"
    same = {"action_limit": None, "log_prob_of": "applied", "reward_ceiling": None}
    names = {"name": released.name, "title": released.title, "methods": released.methods}
    assert then.override(**same, **names) == released


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"changes": "frction = 1"}, "frction.*friction"),
        ({"changes": "friction = normal(0, 1)"}, "log_uniform"),
        ({"changes": "action_delay = 1"}, "longest_action_delay above 0"),
        ({"longest_action_delay": -1}, "must not be negative"),
        ({"iterations_per_chunk": 4}, "must divide the 2 iterations of a task, as 2 does"),
        ({"minibatches": 5}, "must divide the 32 samples of a rollout, as 4 does"),
        ({"discount": 1.5}, "at most 1"),
        ({"reward_floor": 1.0, "reward_ceiling": 0.5}, "must not be above reward_ceiling"),
        ({"action_limit": 0.0}, "above 0"),
        ({"log_prob_of": "both"}, "applied.*sampled"),
        ({"value_hidden": ()}, "at least one layer"),
        ({"physics": "spring"}, "generalized"),
    ],
)
def test_wrong_values(fields, says):
    with pytest.raises(StudyError, match=says):
        tiny(**fields)


@pytest.mark.parametrize(
    ("name", "physics"),
    [
        ("slippery_ant", "unrolled"),
        ("slippery_ant", "mjx"),
        ("delayed_ant_blind", "generalized"),
    ],
)
def test_a_checkpoint_of_an_ant_at_full_size_is_small(name, physics):
    ant = registry.get(name).override(physics=physics)
    trainer = build.trainer(ant, "cpr", None)
    state = jax.eval_shape(trainer.init, jax.random.key(0), {}, ())
    leaves = jax.tree.leaves(state)
    size = sum(
        8 if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x.size * x.dtype.itemsize
        for x in leaves
    )
    assert size < 5 * 2**20


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """A study: through, and stopped after its first chunk; and how often PPO was traced."""
    folder = tmp_path_factory.mktemp("studies")
    traced, improve = [], updates.improve

    def counted(*args, **kwargs):
        traced.append(1)
        return improve(*args, **kwargs)

    experiment = tiny(**{"cpr.every": 2})
    with pytest.MonkeyPatch.context() as patch, jax.numpy_rank_promotion("allow"):
        patch.setattr(updates, "improve", counted)
        share_program(patch)
        whole, parts = folder / "whole", folder / "parts"
        assert launch.run(experiment, ["cpr"], [0, 3], whole, RunOptions(quiet=True)) == 0
        count = len(traced)
        code = launch.run(
            experiment, ["cpr"], [0, 3], parts, RunOptions(quiet=True, time_limit=1e-9)
        )
        assert code == launch.REQUEUE
        assert launch.resume(parts, RunOptions(quiet=True)) == 0
    return load(whole), load(parts), count


def test_one_trace_serves_all_tasks_and_seeds(studies):
    assert studies[2] == 1


def test_stopped_and_resumed_equals_through(studies):
    through, resumed, _ = studies
    pd.testing.assert_frame_equal(through, resumed, check_exact=True)


def test_rows(studies):
    rows, _, _ = studies
    assert len(rows) == 2 * 2 * 2
    one = rows[rows.seed == 3]
    assert one.step.tolist() == [32, 64, 96, 128] and one.task.tolist() == [0, 0, 1, 1]
    frictions = rows.groupby(["seed", "task"]).friction
    assert (frictions.nunique() == 1).all() and rows.friction.nunique() == 4
    assert rows.friction.between(0.02, 2.0).all()
    assert (rows.diverged == 0).all()
    assert rows.episodes_ended.sum() > 0 and rows.value_units_reset.max() > 0
    returns = ["episode_return", "episode_length", "latest_return"]
    measured = rows.drop(columns=returns).select_dtypes(float)
    assert np.isfinite(measured.to_numpy()).all()


def test_restart_is_a_field(monkeypatch):
    made = []
    monkeypatch.setattr(agent, "Episodes", lambda *a: made.append(a[2:]) or Episodes(*a))
    build.trainer(tiny(restart="fresh"), "adam", None)
    assert made == [(6, "fresh")]


@pytest.mark.parametrize(
    "experiment",
    [
        "slippery_ant",
        "slippery_ant_score",
        "delayed_ant",
        pytest.param("slippery_ant_layer_norm", marks=pytest.mark.slow),
    ],
)
def test_every_method_makes_a_program(experiment):
    for name, method in registry.get(experiment).methods.items():
        assert isinstance(method, MethodSpec)
        trainer = build.trainer(tiny(experiment, diagnostics=False), name, None)
        state = jax.eval_shape(trainer.init, jax.random.key(0), {}, ())
        after, rows = jax.eval_shape(trainer.chunk, state, {}, ())
        assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(
            lambda x: (x.shape, x.dtype), state
        )
        assert rows["step"].shape == (1,)


def stream_of(experiment):
    return experiment.stream.build(None, experiment.tasks).stream


@pytest.mark.parametrize(
    ("name", "robot", "physics", "changes"),
    [
        ("slippery_ant", Ant, "unrolled", {"friction": LogUniform(0.02, 2.0)}),
        ("slippery_humanoid", Humanoid, "unrolled", {"friction": LogUniform(0.02, 2.0)}),
        (
            "delayed_ant",
            Ant,
            "unrolled",
            parse_changes("observation_delay = interval(0, 8); action_delay = interval(0, 8)"),
        ),
    ],
)
def test_the_streams_of_the_experiments(name, robot, physics, changes):
    """Robots, engines and changes are the paper's; a task draws what is changed, and no more."""
    made = stream_of(registry.get(name))
    assert made.changes == changes
    own = getattr(made.environment, "env", made.environment)
    assert type(own) is robot
    assert (own.physics, own.friction) == (physics, "applied")
    task, usual = made.task(jax.random.key(0), jax.numpy.int32(1)), made.environment.parameters
    assert set(usual) <= set(PARAMETERS) and task.keys() == usual.keys()
    assert {n for n in usual if float(task[n]) != usual[n]} <= {
        f"{n}{end}" for n in changes for end in ("", "_high")
    }


def delays(name, tasks, seed=0):
    """Of observations and of actions in the first tasks, and the higher ends if there are any."""
    stream = stream_of(registry.get(name))
    found = [stream.task(jax.random.key(seed), jax.numpy.int32(i)) for i in range(tasks)]
    assert {float(task["friction"]) for task in found} == {1.0}
    names = ("observation_delay", "action_delay")
    names += tuple(n for n in PARAMETERS if n.endswith("_high") and n in found[0])
    return {name: [float(task[name]) for task in found] for name in names}


def test_delayed_ants_draw_their_delays():
    assert set(stream_of(tiny("delayed_ant")).environment.parameters) == set(PARAMETERS)
    drawn = delays("delayed_ant", 20)
    for name in ("observation_delay", "action_delay"):
        both = list(zip(drawn[name], drawn[f"{name}_high"], strict=True))
        assert all(0 <= low < high <= 8 for low, high in both) and len(set(both)) > 8
    constant, blind = delays("delayed_ant_constant", 40), delays("delayed_ant_blind", 20)
    for values in (*constant.values(), blind["action_delay"]):
        assert {*values} <= {*range(9)} and len({*values}) > 4
    assert constant["observation_delay"] != constant["action_delay"]
    assert blind["observation_delay"] == [0] * 20


def test_the_ramp_grows_in_turns():
    """No delay, then one more of an observation, one more of an action, …, 20 times."""
    drawn, observation, action = delays("delayed_ant_ramp", 21), 0, 0
    for task in range(21):
        assert (drawn["observation_delay"][task], drawn["action_delay"][task]) == (
            observation,
            action,
        )
        observation, action = (
            (observation + 1, action) if task % 2 == 0 else (observation, action + 1)
        )
    assert [len(each) for each in drawn.values()] == [21, 21]
    assert (drawn["observation_delay"][-1], drawn["action_delay"][-1]) == (10, 10)


def test_delayed_ants_are_their_authors():
    """`experiments/td_ant.py` of their branch `time-delays`."""
    drawn, constant, ramp = (
        registry.get(f"delayed_ant{end}") for end in ("", "_constant", "_ramp")
    )
    assert [each.tasks for each in (drawn, constant, ramp)] == [20, 40, 21]
    assert [each.value("told_delays") for each in (drawn, constant, ramp)] == [
        "one_hot",
        "none",
        "none",
    ]
    sizes = [stream_of(each).environment.observation_size for each in (drawn, constant, ramp)]
    assert sizes == [27 + 9 * 8 + 9 + 9, 27 + 9 * 8, 27 + 11 * 8]
    for each in (drawn, constant, ramp):
        assert each.steps_per_task == pytest.approx(20e6, rel=0.02)
        assert (each.value("action_limit"), each.value("log_prob_of")) == (5.0, "applied")
        assert (each.value("reward_floor"), each.value("reward_ceiling")) == (-5.0, 10.0)
        methods = each.methods
        assert {
            name: m.learning_rate for name, m in methods.items() if m.learning_rate != 1e-3
        } == {"muon": 1e-4}
        assert methods["muon"].eps_root == 1e-8 and {m.clip for m in methods.values()} == {0.5}
        assert methods["cpr"].options["max_reset"] == 0.0015
        assert methods["cbp"].options["replacement_rate"] == 0.003
        assert methods["cbp"].options["maturity"] == 100
        assert methods["redo"].options == {"threshold": 0.1, "every": 1000}
        assert methods["regrama"].options == {"threshold": 0.2, "every": 1000}
        shrink = methods["shrink_perturb"].options
        assert (shrink["shrink"], shrink["perturb"], shrink["every"]) == (1e-3, 5e-3, 1000)


def test_a_delayed_ant_of_before_goes_on():
    """A spec that was stored when agents were told nothing, and delays were of a task."""
    old = spec.to_dict(registry.get("delayed_ant_blind"))
    del old["stream"]["told_delays"]
    stream = stream_of(spec.from_dict(old))
    env = stream.environment
    assert env.observation_size == 27
    state = jax.eval_shape(lambda key: env.reset(key, stream.task(key, 0)), jax.random.key(0))
    assert (state.actions.shape, state.observations.shape) == ((8, 8), (0, 27))
    assert state.delays == ()


@pytest.mark.slow
def test_a_delayed_ant_stopped_and_resumed_equals_through(tmp_path):
    experiment = tiny("delayed_ant")
    assert launch.run(experiment, ["cpr"], [0], tmp_path / "whole", RunOptions(quiet=True)) == 0
    parts = tmp_path / "parts"
    code = launch.run(experiment, ["cpr"], [0], parts, RunOptions(quiet=True, time_limit=1e-9))
    assert code == launch.REQUEUE
    assert launch.resume(parts, RunOptions(quiet=True)) == 0
    pd.testing.assert_frame_equal(load(tmp_path / "whole"), load(parts), check_exact=True)


def test_every_robot_can_be_named():
    assert get_args(RobotName) == tuple(ROBOTS)
    for name in ROBOTS:
        env = stream_of(registry.get("slippery_ant").override(robot=name)).environment
        assert type(env) is ROBOTS[name]


def test_a_spec_that_names_no_engine_goes_on_with_the_default_of_its_time():
    stored = spec.to_dict(registry.get("slippery_ant"))
    del stored["stream"]["physics"]
    assert spec.from_dict(stored).value("physics") == "generalized"


@pytest.mark.parametrize("physics", ["unrolled", "mjx"])
def test_unrolled_physics_is_compiled_for_a_cpu(physics):
    options = build.trainer(tiny(physics=physics), "adam", None).options
    assert (options.items() >= CPU_OPTIONS.items()) == (physics == "unrolled")
