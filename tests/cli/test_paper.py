"""The commands table, figure and reproduce."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.envs.catalog.metaworld import MT10
from continual_learning.paper import artifacts
from continual_learning.studies import bench, launch, registry
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store import manifest
from continual_learning.studies.timings import Timings
from tests.analysis import study_folders

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduce.md").read_text()


@pytest.fixture
def launched(monkeypatch):
    """Takes the place of the runner: studies are made up, and the calls are noted."""
    calls = []

    def run(experiment, methods, seeds, out, options):
        calls.append(("run", experiment, methods, seeds, out, options))
        makers = {"device": study_folders.robots, "host": study_folders.arms}
        make = makers[experiment.stream.place]
        make(out, experiment, methods=methods, seeds=len(seeds), per_task=2)
        return 0

    def resume(path, options):
        calls.append(("resume", path, options))
        return 75

    monkeypatch.setattr(launch, "run", run)
    monkeypatch.setattr(launch, "resume", resume)
    return calls


@pytest.fixture
def timed(monkeypatch):
    """Takes the place of measuring times: each method takes 0.1 s longer than the one before."""
    calls = []

    def methods(spec, names, seeds, rounds):
        calls.append((spec.name, spec.value("environments"), list(seeds), rounds))
        seconds = {name: [1.0 + 0.1 * i, 2.0 + 0.1 * i] for i, name in enumerate(names)}
        return Timings(spec.name, len(seeds), 1000, 7200, seconds, {"device": "Abacus"})

    monkeypatch.setattr(bench, "methods", methods)
    return calls


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def ant(path="ant", **more):
    return study_folders.robots(Path(path), seeds=3, per_task=2, tasks=2, **more)


def fails(capsys, *words: str) -> str:
    """The message of a command that ends with exit code 2."""
    assert cli.main(list(words)) == 2
    return capsys.readouterr().err


# Tables and figures ------------------------------------------------------------------------------


def test_a_table(here, capsys):
    ant()
    assert cli.main(["table", "ant_iqr", "ant"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("**SlipperyAnt: average, final and peak return**\n\n| Method | Source |")
    assert cli.main(["table", "ant_iqr", "ant", "--format", "tex"]) == 0
    assert "\\begin{tabular}" in capsys.readouterr().out
    assert cli.main(["table", "ant_iqr", "ant", "--out", "new/x.csv"]) == 0
    assert (here / "new/x.csv").read_text().startswith("# SlipperyAnt")
    assert cli.main(["table", "ant_iqr", "ant", "--format", "md", "--out", "x.txt"]) == 0
    assert (here / "x.txt").read_text() == text
    assert capsys.readouterr().out == ""


def test_options_may_stand_anywhere(here, capsys):
    ant()
    texts = []
    for words in (
        "ant_iqr ant --format tex",
        "ant_iqr --format tex ant",
        "--format tex ant_iqr ant",
    ):
        assert cli.main(["table", *words.split()]) == 0
        texts.append(capsys.readouterr().out)
    assert len(set(texts)) == 1
    message = fails(capsys, "table", "ant_iqr", "--fromat", "md", "ant")
    assert "'--fromat'. Did you mean '--format'" in message


def test_a_figure(here, capsys):
    assert cli.main(["figure", "util_comp"]) == 0
    assert (here / "util_comp.svg").read_text().startswith("<svg")
    assert capsys.readouterr().out == "Wrote util_comp.svg.\n"
    ant()
    assert cli.main(["figure", "collapse_thresholds", "ant", "--out", "x.png"]) == 0
    assert (here / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("table", "Name a table; `continual table --list` lists them"),
        ("table ant_iq x", "Did you mean 'ant_iqr'.*Valid: .*cmw_reset_params"),
        ("table flagship x", "`continual figure flagship` makes it"),
        (
            "table ant_iqr",
            "needs the folder of a study of slippery_ant; `continual reproduce ant_i",
        ),
        ("table ant_iqr no_such", "no_such is not the folder of a study"),
        ("table hyper_sweep --out x.docx", "Unknown format of a table 'docx'.*md, tex, csv"),
        ("table hyper_sweep --format docx", "invalid choice: 'docx'"),
        ("figure flagshp", "Did you mean 'flagship'"),
        ("figure util_comp --out x.gif", "ends with .svg, .pdf, .png, .html; got x.gif"),
        ("table runtime", "needs one file of `continual bench methods slippery_humanoid --out F"),
        ("table runtime x", "No such file or directory: 'x'"),
        ("reproduce", "Name one table or figure"),
        ("reproduce ant_iqr hum_iqr", "Name one table or figure"),
        ("reproduce ant_iq", "Unknown table or figure 'ant_iq'. Did you mean 'ant_iqr'"),
        ("reproduce ant_iqr --scale sort", "Unknown scale 'sort'. Did you mean 'short'"),
        ("reproduce ant_iqr --set tsks=3", "Unknown field of slippery_ant 'tsks'"),
        ("reproduce --list no_such", "no_such is not the folder of a study"),
    ],
)
def test_errors(here, capsys, launched, words, message):
    assert re.search(message, fails(capsys, *words.split()))
    assert not launched
    assert not list(here.iterdir())


def test_a_folder_of_another_experiment_is_refused(here, capsys):
    study_folders.digits(Path("mnist"), seeds=2, tasks=2)
    message = fails(capsys, "figure", "flagship", "mnist")
    assert "mnist is a study of permuted_mnist; flagship needs slippery_ant." in message
    assert not (here / "flagship.svg").exists()


@pytest.mark.parametrize("kind", ["table", "figure"])
def test_lists(capsys, kind):
    assert cli.main([kind, "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == {"table": 18, "figure": 22}[kind]
    assert all(f"{kind[:3]}:" in line or "not in the paper" in line for line in lines)


# Reproduce ---------------------------------------------------------------------------------------


def test_what_is_missing_is_run(here, capsys, launched):
    words = ["reproduce", "ant_humanoid_main", "--scale", "smoke", "--out", "all", "--quiet"]
    assert cli.main(words) == 0
    assert [call[4] for call in launched] == [
        Path("all/slippery_ant"),
        Path("all/slippery_humanoid"),
    ]
    _, spec, methods, seeds, _, options = launched[0]
    assert (spec.tasks, spec.value("environments"), seeds) == (2, 16, [0, 1])
    assert set(methods) == set(study_folders.METHODS)
    assert options == RunOptions(quiet=True, sinks=[])
    for form in ("svg", "pdf", "png"):
        assert (here / f"all/ant_humanoid_main.{form}").stat().st_size > 1000
    # What is there is used, by another id too.
    assert cli.main(["reproduce", "ant_iqr", "--scale", "smoke", "--out", "all"]) == 0
    assert len(launched) == 2
    assert {path.suffix for path in (here / "all").glob("ant_iqr.*")} == {".md", ".tex", ".csv"}
    assert capsys.readouterr().out.endswith("Wrote all/ant_iqr.csv.\n")


def test_the_studies_of_an_ablation(here, launched):
    words = "reproduce rr --scale smoke --set physics=mjx --quiet"
    assert cli.main(words.split()) == 0
    [(_, spec, methods, seeds, out, _)] = launched
    assert (str(out), methods, seeds) == ("reproduced/smoke/slippery_ant_rho", ["cpr"], [0, 1])
    assert spec.value("physics") == "mjx" and spec.lanes == registry.get("slippery_ant_rho").lanes
    assert cli.main(words.split()) == 0 and len(launched) == 1  # all is there


def test_the_times_of_methods(here, capsys, timed):
    """Measured once, and shown beside the paper's."""
    for _ in range(2):
        assert cli.main(["reproduce", "runtime", "--scale", "smoke", "--out", "x"]) == 0
    assert timed == [("slippery_humanoid", 8, [0, 1], 3)]
    rows = (here / "x/runtime.csv").read_text().splitlines()
    capsys.readouterr()
    assert cli.main(["table", "runtime", "x/slippery_humanoid_times.json"]) == 0
    text = capsys.readouterr().out
    assert text == (here / "x/runtime.md").read_text()
    assert "| Adam | paper | 1.17 | 0 | — |" in text
    assert "here | 3.00 | 0 | 667 |" in text  # 7,200 chunks of 1.5 s
    # The second method takes 1.1 and 2.1 s where Adam takes 1 and 2.
    assert "| ReGraMa | paper | 1.22 | 4 | — |" in text
    assert "here | 3.20 | 7.5 [5.0, 10.0] | 625 |" in text
    assert "slippery_humanoid, 2 seeds side by side on Abacus" in text
    assert len([row for row in rows if row.startswith(("Adam", "CBP"))]) == 4
    assert text.startswith("**Wall time of training on SlipperyHumanoid**")
    assert cli.main(["bench", "methods", "slippery_ant", "--out", "y.json"]) == 0
    capsys.readouterr()
    assert cli.main(["table", "runtime", "y.json"]) == 0
    assert "training: slippery_ant here, slippery_humanoid in the p" in capsys.readouterr().out


@pytest.mark.slow
def test_the_studies_of_single_tasks(here, launched):
    """The table and the figure share them."""
    words = ["--scale", "smoke", "--out", "x", "--quiet"]
    assert cli.main(["reproduce", "mt1_success", *words]) == 0
    assert [call[1].stream.sequence for call in launched] == [(task,) for task in MT10]
    assert launched[1][4] == Path("x/mt1_sequence_push")
    assert cli.main(["reproduce", "metaworld_grid_2x5", *words]) == 0
    assert len(launched) == 10 and (here / "x/metaworld_grid_2x5.svg").exists()


def test_no_study_is_needed(here, launched):
    assert cli.main(["reproduce", "util_comp", "--out", "x"]) == 0
    assert (here / "x/util_comp.svg").exists() and not launched


def test_an_unfinished_study_is_resumed(here, launched):
    """And if it stops again, so does all; its methods may be in another order."""
    spec = registry.get("slippery_ant").at_scale("smoke")
    methods = ["adam", "cbp", "cpr", "redo", "regrama", "shrink_perturb"]
    study_folders.robots(
        Path("x/slippery_ant"), spec, methods=methods, seeds=2, per_task=2, until=0.5
    )
    words = ["reproduce", "param_norm", "--scale", "smoke", "--out", "x", "--time-limit", "90"]
    assert cli.main(words) == 75
    [(what, path, options)] = launched
    assert (what, path) == ("resume", Path("x/slippery_ant"))
    assert 80 < options.time_limit <= 90
    assert not list(here.glob("x/param_norm.*"))


def test_another_study_in_the_folder_is_refused(here, capsys, launched):
    words = ["reproduce", "ant_iqr", "--out", "x", "--quiet", "--scale"]
    assert cli.main([*words, "smoke"]) == 0
    message = fails(capsys, *words, "short")
    assert "x/slippery_ant holds another study" in message
    assert "experiment.tasks: 2 in the folder, 5 asked" in message


def test_the_plan_with_folders(here, capsys):
    ant()
    assert cli.main(["reproduce", "--list", "ant"]) == 0
    assert "  holds it: ant (a budget of its own, finished)" in capsys.readouterr().out


def test_a_real_study(here, monkeypatch):
    """Run, stopped by its time limit, resumed, drawn; of one method."""
    study = artifacts.Study("permuted_mnist", ("cpr",))
    smaller = dataclasses.replace(artifacts.get("perm_mnist"), studies=(study,))
    monkeypatch.setitem(artifacts.ARTIFACTS, "perm_mnist", smaller)
    fields = "dataset=digits examples_per_task=32 batch_size=8 rows_per_task=1 hidden=8 tasks=2"
    words = ["reproduce", "perm_mnist", "--scale", "smoke", "--out", "x", "--quiet"]
    for each in [*fields.split(), "diagnostics=false"]:
        words += ["--set", each]
    assert cli.main([*words, "--time-limit", "0.001s"]) == 75
    assert not (here / "x/perm_mnist.svg").exists()
    assert cli.main(words) == 0
    assert set(load("x/permuted_mnist").method) == {"cpr"}
    log = (here / "x/permuted_mnist/log.txt").read_text()
    assert log.count("resumed") == 1
    assert "test accuracy" in (here / "x/perm_mnist.svg").read_text()
    assert cli.main(words) == 0  # nothing is left to run
    assert (here / "x/permuted_mnist/log.txt").read_text() == log
    written, _ = manifest.read(here / "x/permuted_mnist")
    assert written["experiment"]["stream"]["dataset"] == "digits"


# The page ----------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_commands_of_the_page(here, launched, timed, capsys):
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("continual")]
    assert len(commands) == len(lines) - 1 > 15  # one installs
    for command in commands:
        assert cli.main(shlex.split(command)[1:]) == 0, command
    assert "holds it: runs/ant (short, finished)" in capsys.readouterr().out
    for name in ("ant_iqr.csv", "flagship.pdf", "ant_humanoid_main.svg", "rr.svg", "mt1.svg"):
        assert (here / name).stat().st_size > 500
    assert (here / "reproduced/short/ant_iqr.md").exists()
    assert (here / "paper/ant_humanoid_main.png").exists()
    [code] = blocks("python")
    exec(code, {})
    assert (here / "flagship.svg").exists()
