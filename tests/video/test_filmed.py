"""`continual render`: files, labels, renderers and errors."""

import itertools
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

from continual_learning import cli
from continual_learning.envs.errors import OpenGLError
from continual_learning.studies import registry, spec
from continual_learning.studies.store.store import Store
from continual_learning.video import panels, policy, render
from continual_learning.video.opengl import OpenGL
from continual_learning.video.sketch import Sketch
from tests.video.ant import FRICTIONS, STEPS
from tests.video.test_video import decoded

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
    monkeypatch.setattr(panels, "labeled", lambda frame, lines: told.append(lines[0]) or frame)
    words = f"render {delayed} --steps 1 --renderer sketch --friction 0.5 --set action_delay=4"
    assert cli.main([*words.split(), "--out", str(tmp_path / "a.gif")]) == 0
    assert told == ["friction 0.5, action delay 4"]


def test_labels_are_of_the_moment(filmed, study, monkeypatch):
    played, told = filmed[1], []
    robot = policy.trained(study, "adam").robot
    monkeypatch.setattr(panels, "labeled", lambda frame, lines: told.append(lines) or frame)
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
        ("--method cpr", "cpr has no checkpoint in .*Methods that have one: adam"),
        ("--method admm", "Unknown method of .*'admm'. Did you mean 'adam'.*Valid: adam, cpr"),
        ("--method adam --seed 7", "Unknown seed of .* '7'. Valid: 0, 1"),
        ("--method adam --lane rho=1", "Unknown number of the lanes of .* 'rho'. Valid: none"),
        ("--method adam --lane rho", "--lane rho: write NAME=NUMBER, such as max_reset=0.03"),
        ("--method adam --set gravty=1", "'gravty'. Did you mean 'gravity'.*strength"),
        ("--method adam --set action_delay=1", "Unknown task parameter of slippery_ant"),
        ("--method adam --set gravity=low", "gravity must be a number"),
        ("--method adam --set gravity=1 --set gravity=2", "gravity is given twice"),
        ("--method adam --set gravity=-1", "gravity must be 0 or more; got -1"),
        ("--method adam --set strength=nan", "strength must be a number"),
        ("--method adam --set friction=1 --friction 2", "friction is given twice"),
        ("--method adam --friction 0", "friction must be above 0; got 0"),
        ("--method adam --friction icy", "must be a number, at least 0"),
        ("--method adam --renderer opengl", "Unknown renderer 'opengl'.*auto, mujoco, sketch"),
        ("--method adam --steps 0", "steps must be a whole number, at least 1"),
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
    assert "already exists" in capsys.readouterr().err and path.read_text() == "old"
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
    assert "which cannot be filmed: only robots can" in capsys.readouterr().err


def test_the_docs_name_a_study_that_can_be_filmed():
    """tests/test_docs.py leaves the line of docs/run_a_study.md to this file."""
    page = (Path(__file__).parents[2] / "docs" / "run_a_study.md").read_text()
    [line] = [line for line in page.splitlines() if line.startswith("continual render")]
    args = cli._parse(line.split()[1:])
    assert args.method in registry.get("slippery_ant").methods
    assert args.out.suffix == ".mp4" and len(args.friction) > 1
