"""Every command of the pages in docs/ is run, at a size of seconds."""

import re
import shlex
from pathlib import Path

import jax
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.experiments import extras, launch, registry

DOCS = Path(__file__).parents[1] / "docs"
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
SMALL_HOST = (
    "--tasks 2 --vector-steps-per-task 4 --steps-per-row 4 --rows-per-chunk 1 --environments 2 "
    "--capacity 12 --batch 2 --replay-ratio 1 --learning-starts 2 --no-diagnostics --eval-every 0 "
    "--workers 1 --hidden 4"
)
SMALL_OF = {
    "supervised": SMALL,
    "control": SMALL_CONTROL,
    "games": SMALL_GAMES,
    "host": SMALL_HOST,
}
ELSEWHERE = {
    "cd runs/digits/checkpoints/cpr/000002 && sha256sum --check SHA256SUMS": (
        "tests/analysis/test_data_format.py"
    ),
    "continual render runs/ant --method cpr --friction 0.02 --friction 2 --out cpr.mp4": (
        "tests/experiments/test_render.py"
    ),
    "continual report runs/digits --watch": "tests/analysis/test_report_page.py",
}
"""What other tests run, and which: of the second line, with a study of an ant that they train."""
PAGES_ELSEWHERE = {"reproduce.md": "tests/test_cli_paper.py"}
"""Pages whose every line another test runs, with studies that are made up."""


def commands(text: str) -> list[str]:
    """The lines of all blocks of bash."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip()]


def smaller(words: list[str]) -> list[str]:
    """The words of `continual run`, for seconds: one method, the one that is changed if any is."""
    method = "cpr" if any(word.startswith("cpr.") for word in words) else "adam"
    kind = registry.get(words[1]).kind if words[1] in registry.names() else "supervised"
    sizes = SMALL_OF[kind].split()
    unless_said = {"--methods": method, "--seeds": "2"}
    more = [each for each in unless_said.items() if each[0] not in words]
    return [*words, *(sizes if "--hidden" not in words else sizes[:-2]), *sum(more, ())]


def option(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def execute(line: str, later: list[str], capsys) -> None:
    """Runs one line; `later` are those after it."""
    command, _, target = line.partition(" > ")
    program, *words = shlex.split(command, comments=True)
    if program == "pip":
        [wanted] = re.findall(r"^pip install '\.\[([\w,]+)\]'", line)
        assert set(wanted.split(",")) <= set(extras.EXTRAS)
        return
    assert program == "continual", f"This test does not know how to run {line!r}."
    if words[-1] == "--help":
        with pytest.raises(SystemExit, match="0"):
            cli.main(words)
        return
    code = 0
    if words[0] == "run":
        words = smaller(words)
        if any(each.startswith(f"continual resume {option(words, '--out')}") for each in later):
            words, code = [*words, "--time-limit", "0.001s"], launch.REQUEUE
    assert cli.main(words) == code, line
    out = capsys.readouterr().out
    if target:
        Path(target).write_text(out)
    if words[0] == "run" and code == 0:
        expected = len(option(words, "--methods").split(",")) * int(option(words, "--seeds"))
        assert len(load(option(words, "--out"))) == expected * 2
    if words[0] == "resume":
        assert load(words[1]).groupby(["method", "seed"]).task.nunique().eq(2).all()
        assert " to resume" not in launch.status(Path(words[1]))


@pytest.fixture
def quick_compilation():
    """Programs that run for milliseconds need not be good."""
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_the_commands_of_a_page(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = (DOCS / page).read_text()
    lines = [line for line in commands(text) if line not in ELSEWHERE]
    lines = [] if page in PAGES_ELSEWHERE else lines
    for i, line in enumerate(lines):
        execute(line, lines[i + 1 :], capsys)
    # A command in a block of another kind would not be run.
    told = re.findall(r"^continual .*", text, re.MULTILINE)
    known = [line for line in commands(text) if line.startswith("continual")]
    assert known == told


def test_a_command_that_is_not_known_is_told(capsys):
    with pytest.raises(AssertionError, match="does not know how to run 'make coffee'"):
        execute("make coffee", [], capsys)
