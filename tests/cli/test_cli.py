import re
import shlex
import sys
import types
from pathlib import Path

import pytest

import continual_learning
from continual_learning import cli, extras, studies, video
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry, spec
from continual_learning.studies.options import RunOptions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "run_a_study.md").read_text()


@pytest.fixture
def launched(monkeypatch):
    """Takes the place of the runner and notes how it was called."""
    calls = []

    def run(experiment, methods, seeds, out, options):
        calls.append(("run", experiment, methods, seeds, out, options))
        return 75

    def resume(path, options):
        calls.append(("resume", path, options))
        return 0

    def status(path):
        return f"all of {path} is done"

    def render(path, out, **more):
        calls.append(("render", path, out, more))
        return out

    fakes = {
        (studies, "launch"): types.SimpleNamespace(run=run, resume=resume, status=status),
        (video, "render"): types.SimpleNamespace(render=render),
    }
    for (package, name), fake in fakes.items():
        monkeypatch.setattr(package, name, fake, raising=False)
        monkeypatch.setitem(sys.modules, f"{package.__name__}.{name}", fake)
    return calls


def fails(capsys, *words: str) -> str:
    """The message of a command that ends with exit code 2."""
    assert cli.main(list(words)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("continual: ")
    assert captured.err.count("\n") == 1
    return captured.err


# list and show -----------------------------------------------------------------------------------


def test_list(capsys):
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    specs = {name: registry.get(name) for name in registry.names()}
    expected = [[name, str(each.seeds), str(each.tasks)] for name, each in specs.items()]
    assert [line.split()[:3] for line in lines] == expected
    assert "as in the paper" in lines[0]


def test_list_of_ablations(capsys):
    assert cli.main(["list", "--ablations"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == registry.ablations()


def test_an_ablation_is_run_by_its_name(launched):
    words = "run slippery_ant_rho --scale smoke --out x --rollout 8"
    assert cli.main(words.split()) == 75
    [(_, experiment, methods, seeds, _, _)] = launched
    assert experiment == registry.get("slippery_ant_rho").at_scale("smoke").override(rollout=8)
    assert (methods, seeds) == (["cpr"], [0, 1])


def test_show_prints_what_can_be_run(capsys, tmp_path, launched):
    words = ["show", "permuted_mnist", "--scale", "smoke", "--set", "cpr.max_reset=0.02"]
    assert cli.main([*words, "--seeds", "3"]) == 0
    path = tmp_path / "mine.toml"
    path.write_text(capsys.readouterr().out)
    expected = registry.get("permuted_mnist").at_scale("smoke")
    expected = expected.override(seeds=3, **{"cpr.max_reset": 0.02})
    assert spec.load(path) == expected
    assert cli.main(["run", str(path), "--out", "x"]) == 75
    assert launched[0][1] == expected
    assert launched[0][3] == [0, 1, 2]


# run, resume and status --------------------------------------------------------------------------


def test_run_with_everything(launched):
    words = (
        "run permuted_mnist --methods adam,cpr --seeds 3,7 --scale short --out runs/a --tasks 30 "
        "--hidden 64,32 --no-redraw-head --data-folder data --set cpr.max_reset=0.02 "
        "--set methods.adam.clip=none --set init=lecun_normal --time-limit 8m --quiet "
        "--tensorboard --deterministic"
    )
    assert cli.main(words.split()) == 75
    [(what, experiment, methods, seeds, out, options)] = launched
    expected = registry.get("permuted_mnist").at_scale("short")
    assert what == "run"
    assert experiment == expected.override(
        seeds=2,
        tasks=30,
        hidden=(64, 32),
        redraw_head=False,
        data_folder="data",
        init="lecun_normal",
        **{"cpr.max_reset": 0.02, "adam.clip": None},
    )
    assert (methods, seeds, out) == (["adam", "cpr"], [3, 7], Path("runs/a"))
    assert options == RunOptions(
        time_limit=480.0, quiet=True, sinks=["tensorboard"], deterministic=True
    )


def test_run_with_nothing(launched):
    assert cli.main(["run", "permuted_digits", "--out", "x"]) == 75
    [(_, experiment, methods, seeds, _, options)] = launched
    assert experiment == registry.get("permuted_digits")
    assert methods == list(experiment.methods)
    assert seeds == [0, 1, 2, 3, 4]
    assert options == RunOptions(sinks=[])


def test_the_experiment_may_come_last(launched):
    words = "run --out x --tasks 3 --method cpr permuted_digits"
    assert cli.main(words.split()) == 75
    assert launched[0][1].tasks == 3
    assert launched[0][2] == ["cpr"]


def test_resume_and_status(launched, capsys, tmp_path):
    assert cli.main(["resume", str(tmp_path), "--time-limit", "90"]) == 0
    assert launched == [("resume", tmp_path, RunOptions(sinks=[], time_limit=90.0))]
    assert cli.main(["status", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"all of {tmp_path} is done\n"


def test_render(launched, tmp_path):
    assert cli.main(["render", str(tmp_path)]) == 0
    usual = {
        "method": None,
        "seed": None,
        "lane": {},
        "frictions": [],
        "changes": {},
        "steps": 500,
        "stochastic": False,
        "renderer": "auto",
        "size": (480, 360),
        "fps": 30,
        "force": False,
    }
    words = (
        "--method cpr --seed 3 --lane max_reset=0.03 --friction 0.02 --friction 2 "
        "--set gravity=0.5 --set strength=2 "
        "--steps 20 --stochastic --renderer sketch --size 64x48 --fps 12.5 --force --out a.gif"
    )
    assert cli.main(["render", str(tmp_path), *words.split()]) == 0
    changed = {
        "method": "cpr",
        "seed": 3,
        "lane": {"max_reset": 0.03},
        "frictions": [0.02, 2.0],
        "changes": {"gravity": 0.5, "strength": 2.0},
        "steps": 20,
        "stochastic": True,
        "renderer": "sketch",
        "size": (64, 48),
        "fps": 12.5,
        "force": True,
    }
    assert launched == [
        ("render", tmp_path, None, usual),
        ("render", tmp_path, Path("a.gif"), changed),
    ]


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rum permuted_mnist", "Unknown command 'rum'. Did you mean 'run'?.*continual --help"),
        ("run --out x", "EXPERIMENT"),
        ("run permuted_mnst --out x", "Did you mean 'permuted_mnist'"),
        ("run no.toml --out x", "Cannot read no.toml"),
        ("run permuted_mnist", "--out"),
        ("run permuted_mnist --out x --task 3", "'--task'. Did you mean '--tasks'.*--batch-size"),
        ("run permuted_mnist --out x --tasks=x", "tasks must be a whole number above 0; got 'x'"),
        ("run permuted_mnist --out x --hidden 3,-1", "whole numbers above 0"),
        ("run permuted_mnist --out x --activation rely", "Did you mean 'relu'"),
        ("run permuted_mnist --out x --scale smok", "Did you mean 'smoke'.*paper"),
        ("run permuted_mnist --out x --methods crp", "Did you mean 'cpr'.*regrama"),
        ("run permuted_mnist --out x --methods cpr,cpr", "twice"),
        ("run permuted_mnist --out x --seeds 3,3", "different seeds"),
        ("run permuted_mnist --out x --time-limit 3d", "8m or 1.5h"),
        ("run permuted_mnist --out x --set tasks", "write NAME=VALUE"),
        ("run permuted_mnist --out x --set taks=3", "Did you mean 'tasks'"),
        ("run permuted_mnist --out x --set methods=3", "METHOD.OPTION=VALUE"),
        ("run permuted_mnist --out x --set cpr.max_reset=2", "at most 1, got 2"),
        ("run permuted_mnist --out x --set tasks=3 --tasks 4", "tasks is given twice"),
        ("show permuted_mnist --batch-size 64", "rows_per_task must divide the 937"),
        ("show permuted_mnist more", "unexpected 'more'"),
        ("resume no_such_folder", "no folder no_such_folder"),
        ("status no_such_folder", "no folder no_such_folder"),
        ("render no_such_folder", "no folder no_such_folder"),
        ("render", "DIR"),
    ],
)
def test_errors(capsys, launched, words, message):
    assert re.search(message, fails(capsys, *words.split()))
    assert not launched


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StudyError("x"), True),
        (PermissionError(13, "Permission denied", "x"), True),
        (ImportError("no digits: pip install 'plasticax[demo]'"), True),
        (ImportError("cannot import name"), False),
        (ValueError("a bug"), False),
    ],
)
def test_only_expected_errors_lose_their_traceback(monkeypatch, capsys, launched, error, expected):
    def run(*_, **__):
        raise error

    monkeypatch.setattr(studies.launch, "run", run)  # pyright: ignore
    if expected:
        code = cli.main(["run", "permuted_mnist", "--out", "x"])
        assert code == (3 if isinstance(error, PermissionError) else 2)
        assert str(error) in capsys.readouterr().err
    else:
        with pytest.raises(type(error)):
            cli.main(["run", "permuted_mnist", "--out", "x"])


def test_a_missing_extra_is_named(monkeypatch, capsys, launched):
    installed = extras._installed
    absent = {"wandb", "tomli_w"}
    monkeypatch.setattr(extras, "_installed", lambda m: m not in absent and installed(m))
    message = fails(capsys, "show", "permuted_mnist")
    assert "tomli-w is not installed. Run: pip install 'plasticax[studies]'" in message
    assert "[studies]" in fails(capsys, "run", "permuted_mnist", "--out", "x")
    absent.remove("tomli_w")
    message = fails(capsys, "run", "permuted_mnist", "--out", "x", "--wandb")
    assert "pip install 'plasticax[wandb]'" in message
    assert not launched


# Help and version ---------------------------------------------------------------------------


def helped(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as done:
        cli.main([*words, "--help"])
    assert done.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_explains_every_field(capsys):
    text = helped(capsys, "run", "permuted_mnist")
    for name, each in registry.get("permuted_mnist").fields().items():
        if not each.is_table and name not in ("name", "title", "seeds"):
            assert "--" + name.replace("_", "-") in text
            assert each.help in text
    assert "(default: 200; smoke: 2; short: 20)" in text
    assert "permuted, split, class_incremental, random_labels (default: permuted)" in text
    assert "--no-redraw-head" in text
    assert "(default: 128,128)" in text
    assert "adam, adamw, muon, cpr" in text


def test_help_without_an_experiment(capsys):
    assert "`continual run EXPERIMENT --help` explains" in helped(capsys, "run")
    assert "doctor" in helped(capsys)


def test_version(capsys):
    with pytest.raises(SystemExit) as done:
        cli.main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out.strip() == continual_learning.__version__


# The page about it ------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


COMMANDS = [
    line for block in blocks("bash") for line in block.splitlines() if line.startswith("continual")
]


def test_the_commands_of_the_page(capsys, launched, tmp_path, monkeypatch):
    """Those that need the runner get as far as calling it."""
    monkeypatch.chdir(tmp_path)
    for name in ("second", "ant"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert len(COMMANDS) > 10
    for command in COMMANDS:
        words, _, target = command.partition(" > ")
        _, *words = shlex.split(words)
        if words[-1] == "--help":
            helped(capsys, *words[:-1])
            continue
        assert cli.main(words) == (75 if words[0] == "run" else 0), command
        out = capsys.readouterr().out
        if target:
            Path(target).write_text(out)
    assert len(launched) == sum(c.split()[1] in ("run", "resume", "render") for c in COMMANDS) - 1


def test_the_file_and_the_python_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [toml], [python] = blocks("toml"), blocks("python")
    study = spec.loads(toml)
    assert list(study.methods) == ["adam", "small", "large"]
    assert study.at_scale("smoke").tasks == 2
    exec(python, {})
