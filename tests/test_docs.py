"""Every block of Python and bash of README.md and docs/ is run, at a size of seconds."""

import re
import shlex
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from continual_learning import cli, extras
from continual_learning.analysis import load
from continual_learning.studies import launch, registry

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
}
# What makes a study small; where a line of a page says it too, the later one counts.
SMALL = "--tasks 2 --examples-per-task 32 --rows-per-task 1 --no-diagnostics --hidden 8"
SMALL_CONTROL = (
    "--tasks 2 --iterations-per-task 1 --iterations-per-chunk 1 --environments 2 --rollout 4 "
    "--minibatches 2 --epochs 1 --policy-hidden 8 --value-hidden 8 --no-diagnostics"
)
SMALL_GAMES = (
    "--tasks 2 --vector-steps-per-task 4 --steps-per-row 4 --rows-per-chunk 1 --environments 2 "
    "--capacity 12 --batch 2 --replay-ratio 1 --learning-starts 2 --channels 2 --eval-every 4 "
    "--eval-episodes 1 --no-diagnostics --hidden 4"
)
OFF = "--no-diagnostics"
SMALL_HOST = (
    "--tasks 2 --vector-steps-per-task 4 --steps-per-row 4 --rows-per-chunk 1 --environments 2 "
    "--capacity 12 --batch 2 --replay-ratio 1 --learning-starts 2 --no-diagnostics --eval-every 0 "
    "--workers 1 --hidden 4"
)
SMALL_OF = {
    "dataset": SMALL,
    "robot": SMALL_CONTROL,
    "minatar": SMALL_GAMES,
    "metaworld": SMALL_HOST,
    "gymnasium": SMALL_HOST,
}
ELSEWHERE = {
    "cd runs/digits/checkpoints/cpr/000002 && sha256sum --check SHA256SUMS": (
        "tests/analysis/test_data_format.py"
    ),
    "continual render runs/ant --method cpr --friction 0.02 --friction 2 --out cpr.mp4": (
        "tests/video/test_filmed.py"
    ),
    "continual report runs/digits --watch": "tests/report/test_report_page.py",
    "continual run slippery_ant --seeds 15 --launcher submitit --slurm partition=gpu "
    "gpus_per_node=1 cpus_per_task=8 timeout_min=240 --out runs/ant": (
        "tests/jobs/test_submitit.py"
    ),
    "continual run slippery_ant --seeds 15 --launcher ray --ray address=auto num_gpus=1 num_cpus=8 "
    "--out runs/ant-ray": "tests/jobs/test_ray.py",
    "continual run permuted_digits --plugin my_method.py --methods adam,cpr,random_resets "
    "--set random_resets.every=20 --out runs/mine": "tests/studies/test_own_method.py",
    "continual report runs/mine --plugin my_method.py": "tests/studies/test_own_method.py",
}
"""What other tests run, and which: of the second line, with a study of an ant that they train; of
those with a launcher, with other studies."""
PAGES_ELSEWHERE = {"docs/reproduce.md": "tests/cli/test_paper.py"}
"""Pages whose every block another test runs, with studies that are made up."""
PYTHON_ELSEWHERE = {
    "docs/data.md": "tests/envs/test_docs.py",
    "docs/data_format.md": "tests/analysis/test_data_format.py",
    "docs/host.md": "tests/envs/test_docs.py",
    "docs/metaworld.md": "tests/envs/test_docs.py",
    "docs/minatar.md": "tests/envs/test_docs.py",
    "docs/report.md": "tests/report/test_report_page.py",
    "docs/robots.md": "tests/envs/test_streams.py",
    "docs/run_a_study.md": "tests/cli/test_cli.py",
    "docs/sac.md": "tests/envs/test_docs.py",
    "docs/statistics.md": "tests/analysis/test_statistics_page.py",
    "docs/your_own_method.md": "tests/studies/test_own_method.py",
}
"""Pages whose Python another test runs, which also looks at what it leaves."""

SLOW = {
    f"docs/{name}.md"
    for name in (
        "cluster",
        "how_a_study_runs",
        "metaworld",
        "minatar",
        "performance",
        "robots",
        "sac",
    )
}
"""Pages whose commands take long, and whose modules have other tests."""


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, code) of all blocks."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def lines_of(code: str) -> list[str]:
    """Commands of a block of bash."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def commands(text: str) -> list[str]:
    return [line for kind, code in blocks(text) if kind == "bash" for line in lines_of(code)]


def smaller(words: list[str], diagnostics: bool) -> list[str]:
    """The words of `continual run`, for seconds: one method, the one that is changed if any is."""
    known = words[1] in (*registry.names(), *registry.ablations())
    kind = registry.get(words[1]).stream.kind if known else "dataset"
    resets = known and "adam" not in registry.get(words[1]).methods
    method = "cpr" if resets or any(word.startswith("cpr.") for word in words) else "adam"
    sizes = [word for word in SMALL_OF[kind].split() if not diagnostics or word != OFF]
    unless_said = {"--methods": method, "--seeds": "2"}
    more = [each for each in unless_said.items() if each[0] not in words]
    return [*words, *(sizes if "--hidden" not in words else sizes[:-2]), *sum(more, ())]


def option(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def execute(line: str, later: list[str], capsys, diagnostics: bool = False) -> None:
    """Runs one line; `later` are those after it, `diagnostics` whether the page reads them."""
    command, _, target = line.partition(" > ")
    program, *words = shlex.split(command, comments=True)
    if program == "pip":
        [wanted] = re.findall(r"^pip install (?:\.|'\.\[([\w,]+)\]')$", command)
        assert {*wanted.split(",")} - {""} <= set(extras.EXTRAS)
        return
    if program == "make":
        assert f"\n{words[0]}: " in (ROOT / "Makefile").read_text()
        return
    assert program == "continual", f"This test does not know how to run {line!r}."
    if words[-1] == "--help":
        with pytest.raises(SystemExit, match="0"):
            cli.main(words)
        return
    code = 0
    if words[0] == "sweep":
        words += SMALL.split()
    if words[0] == "run":
        words = smaller(words, diagnostics)
        if any(each.startswith(f"continual resume {option(words, '--out')}") for each in later):
            words, code = [*words, "--time-limit", "0.001s"], launch.REQUEUE
    assert cli.main(words) == code, line
    out = capsys.readouterr().out
    if target:
        Path(target).write_text(out)
    if words[0] == "run" and code == 0:
        expected = len(option(words, "--methods").split(",")) * int(option(words, "--seeds"))
        points = 1 if words[1].endswith(".toml") else registry.get(words[1]).points
        assert len(load(option(words, "--out"))) == expected * points * 2
    if words[0] == "sweep":
        assert Path(option(words, "--out"), "best.toml").exists()
    if words[0] == "resume":
        assert load(words[1]).groupby(["method", "seed"]).task.nunique().eq(2).all()
        assert cli.main(["status", words[1]]) == 0
        assert " to resume" not in capsys.readouterr().out


@pytest.fixture
def quick_compilation():
    """Programs that run for milliseconds need not be good."""
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def page_module(monkeypatch):
    """Where the Python of a page runs, in order: it has no name but those that the page makes."""
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # where dataclasses look their class up
    return page


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PAGES]
)
def test_the_blocks_of_a_page(name, page_module, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = PAGES[name].read_text()
    if name not in PAGES_ELSEWHERE:
        left = [line for line in commands(text) if line not in ELSEWHERE]
        for kind, code in blocks(text):
            if kind == "python" and name not in PYTHON_ELSEWHERE:
                exec(compile(code, name, "exec"), vars(page_module))
            for line in lines_of(code) if kind == "bash" else []:
                if line not in ELSEWHERE:
                    left = left[1:]
                    execute(line, left, capsys, diagnostics="dormant_ratio" in text)
    # Blocks of `text` are what cannot be run here; tests/cli/test_cli.py reads the only file.
    assert {kind for kind, _ in blocks(text)} <= {
        "python",
        "bash",
        "text",
        "mermaid",
        "toml",
        "bibtex",
    }
    # A command in a block of another kind would not be run.
    told = re.findall(r"^continual .*", text, re.MULTILINE)
    known = [line for line in commands(text) if line.startswith("continual")]
    assert known == told


@pytest.mark.parametrize("name", PAGES)
def test_blocks_need_no_clone(name):
    """What is installed can be imported; examples, tests and programs of docs/ cannot."""
    for kind, code in blocks(PAGES[name].read_text()):
        if kind == "python":
            found = re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE)
            assert not {"benchmarks", "docs", "examples", "results", "tests"} & set(found)


def test_what_is_run_elsewhere_is():
    for page, test in (PAGES_ELSEWHERE | PYTHON_ELSEWHERE).items():
        assert Path(page).name in (ROOT / test).read_text(), f"{test} does not run {page}"
        assert blocks(PAGES[page].read_text())
    lines = [line for path in PAGES.values() for line in commands(path.read_text())]
    assert set(ELSEWHERE) <= set(lines)
    assert all((ROOT / test).exists() for test in ELSEWHERE.values())


def test_the_loop_that_says_its_schedule(page_module):
    """That of docs/overhead.md: as many steps as batches, and a reset in the last."""
    [code] = [
        code for kind, code in blocks(PAGES["docs/overhead.md"].read_text()) if kind == "python"
    ]

    def step(carry, batch, reset):
        return carry + (10 * batch if reset else batch), None

    exec(code, vars(page_module))
    page_module.step = step
    total, _ = page_module.stretch(jnp.zeros(()), jnp.arange(5.0))
    assert total == 0 + 1 + 2 + 3 + 40


def test_a_command_that_is_not_known_is_told(capsys):
    with pytest.raises(AssertionError, match="does not know how to run 'brew coffee'"):
        execute("brew coffee", [], capsys)


# What pages claim ---------------------------------------------------------------------------------


def test_tests_that_are_named_exist():
    text = PAGES["docs/paper_and_code.md"].read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


def test_every_benchmark_is_on_the_page():
    text = PAGES["docs/performance.md"].read_text()
    programs = [
        path for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()
    ]
    assert len(programs) > 10
    assert all(f"benchmarks/{path.name}" in text for path in programs)


def test_every_number_of_the_page_on_performance_stands_elsewhere():
    own = PAGES["docs/performance.md"].read_text()
    others = [path for name, path in PAGES.items() if name != "docs/performance.md"]
    texts = [path.read_text() for path in [*others, *ROOT.glob("results/*/README.md")]]
    known = set(re.findall(r"\d[\d,.]*\d", "\n".join(texts)))
    measured = "\n".join(line for line in own.splitlines() if not line.startswith("python bench"))
    assert set(re.findall(r"\d[\d,.]*\d", measured)) <= known


def test_the_table_of_what_can_be_reproduced():
    from docs import reproduce_table

    text = PAGES["docs/reproduce.md"].read_text()
    assert reproduce_table.table() in text, "Run `python docs/reproduce_table.py`."


def test_the_table_of_metrics():
    from docs import metrics_table

    text = PAGES["docs/diagnostics.md"].read_text()
    assert metrics_table.table() in text, "Run `python docs/metrics_table.py`."
