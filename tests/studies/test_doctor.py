import re
import tomllib
from pathlib import Path

from continual_learning import cli, extras, installation
from continual_learning.studies import doctor

ROOT = Path(__file__).parents[2]


def test_doctor(capsys, monkeypatch):
    monkeypatch.setattr(extras, "missing", lambda extra: ["wandb"] if extra == "wandb" else [])
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "missing: wandb. To install: pip install 'plasticax[wandb]'" in out
    assert re.search(r"jax +\d+\.\d+", out)
    assert re.search(r"^device .*cpu", out, re.IGNORECASE | re.MULTILINE)
    before, after = re.search(r"loss (\S+) → (\S+), fine", out).groups()  # pyright: ignore
    assert float(after) < float(before)


def test_doctor_says_when_the_step_fails(capsys, monkeypatch):
    def step():
        raise RuntimeError("no such device")

    monkeypatch.setattr(doctor, "step", step)
    assert cli.main(["doctor"]) == 1
    assert "The training step failed. RuntimeError: no such device" in capsys.readouterr().out


def test_extras_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = {
        re.split(r"[>=<]", each)[0]
        for extra, needed in project["optional-dependencies"].items()
        if extra != "dev"
        for each in needed
        if not each.startswith(f"{installation.DISTRIBUTION}[")
    }
    # An extra may need a newer version of what the core needs.
    core = {re.split(r"[>=<]", each)[0] for each in project["dependencies"]}
    assert parts - core == {name for each in extras.EXTRAS.values() for name in each}
    for extra, known in extras.EXTRAS.items():
        needed = project["optional-dependencies"][extra]
        assert all(any(each.startswith(name) for each in needed) for name in known)
