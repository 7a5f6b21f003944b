"""What the command says to somebody who does not know it yet."""

import shutil
import subprocess

import pytest

from continual_learning import cli
from continual_learning.studies import registry
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study


def test_without_arguments_it_says_how_to_begin(capsys):
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    first = out.partition("first steps:")[2]
    assert "reproduce" in out and "continual run random_labels --scale short" in first
    for line in first.splitlines():
        words = line.split()
        if len(words) > 1 and words[1].islower():  # every step is a command that there is
            with pytest.raises(SystemExit, match="0"):
                cli.main([words[1], "--help"])


@pytest.mark.parametrize(
    ("typo", "meant"), [("rnu", "run"), ("reports", "report"), ("reproduced", "reproduce")]
)
def test_a_typo_is_told_what_was_meant(typo, meant, capsys):
    assert cli.main([typo]) == cli.FAILED
    said = capsys.readouterr().err
    assert f"Unknown command {typo!r}. Did you mean {meant!r}?" in said
    assert "`continual --help`" in said


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in ("continual", *words))
    code = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _continual\n"
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_completion(capsys):
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "re") == ["resume", "render", "report", "reproduce"]
    assert completed(script, "run", "slippery") == [
        "slippery_ant",
        "slippery_ant_2025",
        "slippery_ant_sac",
        "slippery_humanoid",
    ]
    assert completed(script, "run", "random_labels", "--sc") == ["--scale"]
    assert completed(script, "status", "any") == []
    assert set(registry.names()) == set(completed(script, "show", ""))


def test_completion_of_other_shells(capsys):
    assert cli.main(["completion", "zsh"]) == 0
    assert "bashcompinit" in capsys.readouterr().out
    assert cli.main(["completion", "bsh"]) == cli.FAILED
    assert "Unknown shell 'bsh'. Did you mean 'bash'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["random_labels", "continual_minatar"])
def test_what_cannot_be_filmed_is_told_before_anything_else(name, tmp_path, capsys, monkeypatch):
    """Also where the extras for filming are not installed."""
    from continual_learning.video import render

    monkeypatch.setattr(render.extras, "require", None)
    study = Study(registry.get(name, "smoke"), ["cpr"], [0])
    Store.create(tmp_path / "x", study.to_dict(), {}).close()
    monkeypatch.setattr("continual_learning.cli.studies.extras.require", lambda *_: None)
    assert cli.main(["render", str(tmp_path / "x")]) == cli.FAILED
    said = capsys.readouterr().err
    assert f"is a study of {name}, which cannot be filmed: only robots can" in said
    assert "continual report" in said
