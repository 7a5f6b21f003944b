"""An environment and an agent of one file each, in everything that studies go through."""

from pathlib import Path

import jax
import pytest

from continual_learning import cli, plugins
from continual_learning.agents.catalog import AGENTS
from continual_learning.analysis import load
from continual_learning.diagnostics import metrics
from continual_learning.envs import STREAMS
from continual_learning.paper import tables
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry, spec
from continual_learning.studies.store import manifest
from tests.analysis import study_folders

HERE = Path(__file__).parent
ENVIRONMENT, AGENT = str(HERE / "my_environment.py"), str(HERE / "my_agent.py")
BOTH = ["--plugin", ENVIRONMENT, "--plugin", AGENT]
SMALL = [
    "--updates",
    "5",
    "--environments",
    "8",
    "--agent-scale",
    "0.2",
    "--set",
    "random.every=3",
    "--quiet",
]
TEXT = """
name = "warm_room"
title = "REINFORCE in a room"
tasks = 2
seeds = 2

[stream]
kind = "room"
coldest = -5.0

[agent]
kind = "reinforce"
diagnostics_of_nobody = 1

[networks]
kind = "mlp"
hidden = [8]

[methods.adam]
learning_rate = 0.01

[methods.random]
learning_rate = 0.01
reset = "cpr"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "warm_room.toml"
    path.write_text(TEXT.replace("diagnostics_of_nobody = 1\n", ""))
    return path


def said(capsys, *words, code=0):
    assert cli.main([str(word) for word in words]) == code
    return "".join(capsys.readouterr())


def test_a_study_of_both(file, tmp_path, another_process, capsys):
    path = tmp_path / "study"
    words = ["run", file, *BOTH, *SMALL, "--out", path]
    said(capsys, *words, "--until-task", 1, code=75)
    study, _ = manifest.read(path)
    assert [each["file"] for each in study["plugins"]] == [ENVIRONMENT, AGENT]
    agent = study["experiment"]["agent"]
    assert (agent["updates"], agent["scale"]) == (5, 0.2)

    another_process()
    said(capsys, "resume", path, "--quiet")
    rows = load(path)
    assert set(rows.method) == {"adam", "random"} and set(rows.task) == {0, 1}
    assert rows.step.max() == 2 * 5 * 20 * 8 and rows.latest_return.notna().any()
    assert rows.groupby(["seed", "task"]).outside.nunique().eq(1).all()
    assert rows[rows.method == "random"].policy_units_reset.max() >= 0

    another_process()  # who reads it needs neither
    page = tmp_path / "page.html"
    told = said(capsys, "report", path, "-o", page)
    assert "is not loaded" in told and "warm_room" in page.read_text()
    assert plugins.loaded() == ()
    said(capsys, "status", path, *BOTH)
    another_process()
    assert "--plugin FILE.py" in said(capsys, "table", "methods", path, code=2)
    table = said(capsys, "table", "methods", path, *BOTH)
    assert "latest_return, IQM of seeds" in table and "| Adam |" in table
    chart = tmp_path / "chart.html"
    said(capsys, "figure", "curves", path, "--out", chart, *BOTH)
    assert "episodic return" in chart.read_text()


def test_it_learns(file, tmp_path, capsys):
    path = tmp_path / "study"
    words = ["--methods", "adam", "--updates", "60", "--tasks", "1", "--quiet", "--out", path]
    said(capsys, "run", file, *BOTH, *words)
    returns = load(path).groupby("step").latest_return.mean()
    assert returns.iloc[-5:].mean() > returns.iloc[1:6].mean() + 5


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [["local"], ["ray", "--ray", "num_cpus=0.5"]])
def test_jobs_and_a_sweep(file, tmp_path, another_process, capsys, launcher):
    if launcher[0] == "ray":
        pytest.importorskip("ray")
    said(capsys, "run", file, *BOTH, *SMALL, "--out", tmp_path / "jobs", "--launcher", *launcher)
    assert set(load(tmp_path / "jobs").method) == {"adam", "random"}
    another_process()
    assert "finished" in said(capsys, "status", tmp_path / "jobs", *BOTH)
    words = ["sweep", file, *BOTH, "--method", "random", "--seeds", "2", *SMALL]
    grid = ["--grid", "max_reset=0.01,0.5", "scale=0.1,0.2", "--out", tmp_path / "sweep"]
    assert "best" in said(capsys, *words, *grid)


def test_spaces_that_do_not_fit_say_both(file):
    for each in (ENVIRONMENT, AGENT):
        plugins.load(each)
    room = spec.load(file)
    with pytest.raises(StudyError, match=r"'reinforce' learns from environments in JAX with conti"):
        room.override(stream=registry.get("continual_minatar").stream)
    with pytest.raises(StudyError, match=r"'classifier' learns from labeled examples; the stream"):
        room.override(agent=registry.get("permuted_mnist").agent)
    with pytest.raises(StudyError, match="the stream 'dataset' has labeled examples"):
        room.override(stream=registry.get("permuted_mnist").stream)


def test_kinds_that_are_taken_or_not_there(file, another_process):
    with pytest.raises(StudyError, match=r"Unknown kind of stream 'room'.*--plugin FILE.py"):
        spec.load(file)
    plugins.load(ENVIRONMENT)
    room = STREAMS.get("room")
    assert STREAMS.register(room) is room
    with pytest.raises(StudyError, match=r"stream 'minatar' already, from this package"):
        STREAMS.register(type("Mine", (room,), {"kind": "minatar"}))
    with pytest.raises(StudyError, match=r"stream 'room' already, from .*my_environment.py"):
        STREAMS.register(type("Mine", (room,), {"kind": "room"}))
    with pytest.raises(TypeError, match="must be a subclass of Agent"):
        AGENTS.register(room)
    with pytest.raises(TypeError, match="needs a `kind`"):
        STREAMS.register(type("Mine", (room,), {"kind": "no name"}))


ROBOT = str(HERE / "my_robot.py")
STANDING = """
name = "standing_ant"
title = "An ant that stands"
tasks = 1
seeds = 1

[stream]
kind = "standing"

[agent]
kind = "ppo"
environments = 4
rollout = 4
minibatches = 2
epochs = 1
iterations_per_task = 1
iterations_per_chunk = 1
diagnostics = false

[networks]
kind = "actor_critic"
policy_hidden = [8]
value_hidden = [8]

[methods.adam]
learning_rate = 1e-3
"""


@pytest.mark.slow
def test_a_robot_is_filmed(tmp_path, another_process, capsys):
    file, path, film = tmp_path / "standing.toml", tmp_path / "study", tmp_path / "film.gif"
    file.write_text(STANDING)
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        said(capsys, "run", file, "--plugin", ROBOT, "--quiet", "--out", path)
        another_process()
        words = ["--steps", 4, "--size", "64x48", "--renderer", "sketch", "--out", film]
        told = said(capsys, "render", path, "--set", "gravity=1.5", *words)
    assert f"{film}: 4 frames" in told and film.stat().st_size > 100
    assert [each.file for each in plugins.loaded()] == [ROBOT]


def test_a_table_and_a_metric(tmp_path, capsys):
    """Of one file each, or of the same."""
    path = study_folders.digits(tmp_path / "digits", seeds=2, tasks=3)
    file = str(HERE / "my_table.py")
    assert cli.main(["table", "--list", "--plugin", file]) == 0
    assert "Accuracy in the last task" in capsys.readouterr().out
    assert cli.main(["table", "last_task", str(path), "--plugin", file, "--format", "csv"]) == 0
    rows = load(path)
    last = rows[(rows.task == 2) & (rows.method == "adam")].online_accuracy.mean()
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("adam,")]
    assert float(line.split(",")[1]) == pytest.approx(100 * last, abs=0.06)
    assert metrics.metric("policy_surprise").title == "Surprise, policy"
    assert metrics.metric("surprise").better == "lower"


def test_ours_are_not_replaced():
    with pytest.raises(StudyError, match="methods is ours: choose another id"):
        tables.register("methods", "Mine", lambda artifact, folders: None)
    with pytest.raises(ValueError, match="reward is ours"):
        metrics.register(metrics.METRICS["reward"])
