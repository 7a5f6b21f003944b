"""`continual render` on a study of an ant that was trained for one chunk.

Compiling the physics is what these tests cost: once to train, once to play.
"""

import dataclasses
import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from PIL import Image

from continual_learning import cli
from continual_learning.agents.normaliser import Normaliser
from continual_learning.analysis import load
from continual_learning.envs.delayed import DelayedState
from continual_learning.envs.drawing.opengl import OpenGL
from continual_learning.envs.drawing.sketch import Sketch
from continual_learning.envs.errors import OpenGLError
from continual_learning.envs.robots.physics import Body
from continual_learning.envs.robots.robot import RobotState
from continual_learning.experiments import build, launch, registry, render, spec
from continual_learning.experiments.errors import StudyError
from continual_learning.experiments.runner import Lanes
from continual_learning.experiments.storage.store import Store
from continual_learning.experiments.study import Study
from continual_learning.experiments.video import panels, policy
from tests.experiments.test_video import decoded

SMALL = (
    "--environments 4 --rollout 4 --minibatches 2 --epochs 1 --iterations-per-task 1 "
    "--iterations-per-chunk 1 --tasks 1 --policy-hidden 8 --value-hidden 8 --no-diagnostics "
    "--episode-length 15 --seeds 2 --quiet"
)
STEPS = 40
FRICTIONS = 0.02, 2.0


@pytest.fixture(scope="module", autouse=True)
def settings():
    """Programs that run for milliseconds need not be good; Brax's code promotes ranks."""
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.numpy_rank_promotion("allow"):
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Adam has finished, and CPR has not begun."""
    path = tmp_path_factory.mktemp("study") / "ant"
    words = f"run slippery_ant --methods adam,cpr {SMALL} --time-limit 0.001s --out {path}"
    assert cli.main(words.split()) == launch.REQUEUE
    return path


@pytest.fixture(scope="module")
def filmed(study, tmp_path_factory):
    """(a GIF of two frictions from the command line, what was played for it)."""
    path = tmp_path_factory.mktemp("video") / "two.gif"
    words = f"render {study} --method adam --seed 1 --steps {STEPS} --size 128x96 --out {path}"
    played = []
    with pytest.MonkeyPatch.context() as patch, Store.open(study):  # locked, as by a running study
        play = policy.play
        patch.setattr(policy, "play", lambda *a, **k: played.append(play(*a, **k)) or played[0])
        flags = [word for friction in FRICTIONS for word in ("--friction", str(friction))]
        assert cli.main([*words.split(), *flags, "--renderer", "sketch"]) == 0
    return path, played[0]


@pytest.fixture
def quickly(filmed, monkeypatch):
    """Plays nothing anew; notes how it was asked to."""
    calls = []

    def play(trained, tasks, steps, stochastic):
        calls.append((trained, tasks, steps, stochastic))
        return policy.Played(*(x[: len(tasks), :steps] for x in filmed[1]))

    monkeypatch.setattr(policy, "play", play)
    return calls


# What is played ----------------------------------------------------------------------------------


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

    normaliser = Normaliser.start(size).update(3 * seen[::-1] + 1)
    normal = trained.experiment.override(normalise_observations=True)
    act = policy.actor(dataclasses.replace(trained, experiment=normal), False)
    found = act(trained.params, normaliser, keys[0], seen)
    by_hand = mean(trained.params, (), keys[0], normaliser.normalise(seen))
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    assert np.abs(found - expected).max() > 0.01


@pytest.fixture(scope="module")
def delayed(tmp_path_factory):
    """A study of delays with normalised observations, in its third task; it was never run."""
    path = tmp_path_factory.mktemp("study") / "delayed"
    small = registry.get("delayed_ant").at_scale("smoke")
    small = small.override(normalise_observations=True, policy_hidden=(8,), value_hidden=(8,))
    trainer = build.trainer(small, "adam", None)
    state = jax.jit(jax.vmap(trainer.init, (0, None, None)))(Lanes([5]).keys(), {}, ())
    state = state._replace(
        iteration=jnp.full(1, 2 * small.iterations_per_task + 1, jnp.int32),
        normaliser=jax.tree.map(lambda x: x + 3, state.normaliser),
    )
    plain = {"experiment": spec.to_dict(small), "methods": ["adam"], "seeds": [5]}
    with Store.create(path, plain, {}) as store:
        store.write_part("adam", 0, {name: np.zeros(1, int) for name in ("seed", "step", "task")})
        store.save("adam", 0, state)
    return path


def test_delays_and_statistics(delayed):
    trained = policy.trained(delayed)
    assert (trained.seed, trained.task) == (5, 2)
    np.testing.assert_array_equal(trained.normaliser.mean, np.full(27, 3))
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
        ("--seed 7", "Unknown seed of .* 7. Valid: 5, 6"),
        ("--lane every=30", "Unknown every of the lanes of .* 30.0. Valid: 10, 20"),
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


# What is filmed ----------------------------------------------------------------------------------


def test_a_gif_of_two_frictions(filmed):
    path, _ = filmed
    with Image.open(path) as image:
        assert image.n_frames == STEPS and image.size == (2 * 128, 96)  # pyright: ignore
        assert image.info["duration"] == 50  # in real time
        shown = []
        for i in range(STEPS):
            image.seek(i)
            shown.append(np.asarray(image.convert("RGB")).astype(int))
    robots = np.stack(shown)[:, 30:]  # below the labels
    for before, after in itertools.pairwise(robots):
        assert (before != after).any()
    left, right = robots[:, :, 1:128], robots[:, :, 129:]
    assert (left[10] != right[10]).any(axis=-1).mean() > 0.01


def test_an_mp4_at_fewer_frames(study, quickly, tmp_path, capsys):
    path = tmp_path / "a.mp4"
    words = f"render {study} --method adam --steps 31 --fps 10 --size 96x64 --stochastic"
    words += f" --renderer sketch --set gravity=0.5 --out {path}"
    assert cli.main(words.split()) == 0
    assert f"{path}: 16 frames, 10 a second" in capsys.readouterr().out
    shown, said = decoded(path, 96, 64)
    assert len(shown) == 16 and " 10 fps" in said
    assert (shown[0] != shown[-1]).any()
    [(trained, [task], steps, stochastic)] = quickly
    assert (trained.seed, steps, stochastic) == (0, 31, True)
    assert task["gravity"] == 0.5 and task["friction"] == trained.last_task["friction"]


def test_the_file_has_a_name_if_none_is_given(study, quickly, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    render.render(study, method="adam", steps=2, renderer="sketch", size=(32, 32))
    assert [file.name for file in tmp_path.iterdir()] == ["slippery_ant_adam_seed0.mp4"]


def test_delays_are_filmed_and_told(delayed, quickly, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(panels, "labelled", lambda frame, lines: told.append(lines[0]) or frame)
    words = f"render {delayed} --steps 1 --renderer sketch --friction 0.5 --set action_delay=4"
    assert cli.main([*words.split(), "--out", str(tmp_path / "a.gif")]) == 0
    assert told == ["friction 0.5, action delay 4"]


def test_labels_are_of_the_moment(filmed, study, monkeypatch):
    played, told = filmed[1], []
    robot = policy.trained(study, "adam").robot
    monkeypatch.setattr(panels, "labelled", lambda frame, lines: told.append(lines) or frame)
    tasks = [{**robot.parameters, "friction": friction} for friction in FRICTIONS]
    drawer = Sketch(robot.mujoco_model, 32, 32)
    shown = list(render.frames(drawer, played, tasks, robot.parameters, dt=robot.dt, stride=20))
    assert len(shown) == STEPS // 20
    assert [line[0] for line in told] == ["friction 0.02", "friction 2"] * 2
    assert told[0][1].startswith("0.0 s, ") and told[0][1].endswith(" return 0.0")
    assert f"return {played.total[1, 20]:.1f}, episode {played.episode[1, 20]}" in told[3][1]


@pytest.mark.parametrize("works", [True, False])
def test_the_renderer_is_chosen(works, monkeypatch, capsys):
    class Renderer:
        def __init__(self, *_):
            if not works:
                raise RuntimeError("no display")

        def close(self):
            pass

    monkeypatch.setattr(mujoco, "Renderer", Renderer)
    monkeypatch.setattr(OpenGL, "_failure", None)
    model = mujoco.MjModel.from_xml_string("<mujoco/>")  # pyright: ignore
    assert isinstance(render.open_drawer("sketch", model, (32, 32)), Sketch)
    drawer = render.open_drawer("auto", model, (32, 32))
    assert isinstance(drawer, OpenGL if works else Sketch)
    said = capsys.readouterr().out
    if works:
        assert said == "" and isinstance(render.open_drawer("mujoco", model, (32, 32)), OpenGL)
    else:
        assert said.startswith("A sketch is drawn. MuJoCo's renderer cannot start: RuntimeError")
        with pytest.raises(OpenGLError, match="MUJOCO_GL"):
            render.open_drawer("mujoco", model, (32, 32))


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "has several methods: choose one of adam, cpr"),
        ("--method cpr", "cpr has no checkpoint in .* yet.*Methods that have one: adam"),
        ("--method admm", "Unknown method of .*'admm'. Did you mean 'adam'.*Valid: adam, cpr"),
        ("--method adam --seed 7", "Unknown seed of .* 7. Valid: 0, 1"),
        ("--method adam --lane rho=1", "Unknown number of the lanes of .* 'rho'. Valid: none"),
        ("--method adam --lane rho", "--lane rho: write NAME=NUMBER, such as max_reset=0.03"),
        ("--method adam --set gravty=1", "'gravty'. Did you mean 'gravity'.*strength"),
        ("--method adam --set action_delay=1", "Unknown task parameter of slippery_ant"),
        ("--method adam --set gravity=low", "write NAME=NUMBER"),
        ("--method adam --set gravity=1 --set gravity=2", "gravity is given twice"),
        ("--method adam --set gravity=-1", "gravity must be 0 or more; got -1"),
        ("--method adam --set strength=nan", "strength must be 0 or more; got nan"),
        ("--method adam --set friction=1 --friction 2", "friction is given twice"),
        ("--method adam --friction 0", "friction must be above 0; got 0"),
        ("--method adam --friction icy", "invalid float value: 'icy'"),
        ("--method adam --renderer opengl", "Unknown renderer 'opengl'.*auto, mujoco, sketch"),
        ("--method adam --steps 0", "steps must be at least 1"),
        ("--method adam --fps 0", "fps must be above 0"),
        ("--method adam --size 480", "WIDTHxHEIGHT"),
        ("--method adam --size 481x360", "two even numbers.*got 481x360"),
        ("--method adam --out a.avi", r"a video must end with \.mp4 or \.gif"),
        ("--method adam --deterministic --stochastic", "not allowed with"),
        ("--methods adam", "Did you mean '--method'"),
    ],
)
def test_errors(study, quickly, capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["render", str(study), *words.split()]) == cli.FAILED
    said = capsys.readouterr().err
    assert said.startswith("continual: ") and said.count("\n") == 1
    assert re.search(message, said), said
    assert not quickly and not list(tmp_path.iterdir())


def test_nothing_is_replaced_unless_asked(study, quickly, tmp_path, capsys):
    path = tmp_path / "a.gif"
    path.write_text("old")
    words = f"render {study} --method adam --steps 2 --size 32x32 --renderer sketch --out {path}"
    assert cli.main(words.split()) == cli.FAILED
    assert "is there already" in capsys.readouterr().err and path.read_text() == "old"
    assert cli.main([*words.split(), "--force"]) == 0
    assert path.read_bytes().startswith(b"GIF89a")


def test_folders_that_cannot_be_filmed(tmp_path, capsys):
    assert cli.main(["render", str(tmp_path / "no")]) == cli.FAILED
    assert "There is no folder" in capsys.readouterr().err
    assert cli.main(["render", str(tmp_path)]) == cli.FAILED
    assert "is not the folder of a study" in capsys.readouterr().err
    digits = spec.to_dict(registry.get("permuted_digits"))
    plain = {"experiment": digits, "methods": ["adam"], "seeds": [0]}
    Store.create(tmp_path / "digits", plain, {}).close()
    assert cli.main(["render", str(tmp_path / "digits")]) == cli.FAILED
    assert "kind 'supervised': there is nothing to watch" in capsys.readouterr().err


def test_the_docs_name_a_study_that_can_be_filmed():
    """tests/test_docs.py leaves the line of docs/run_a_study.md to this file."""
    page = (Path(__file__).parents[2] / "docs" / "run_a_study.md").read_text()
    [line] = [line for line in page.splitlines() if line.startswith("continual render")]
    args = cli._parse(line.split()[1:])
    assert args.method in registry.get("slippery_ant").methods
    assert args.out.suffix == ".mp4" and len(args.friction) > 1
