"""A reset method of one's own in a study: the page says how, and it runs as printed."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from continual_learning import cli, plugins
from continual_learning.analysis import load
from continual_learning.optim import CPR, ReDo, register, registry

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "your_own_method.md"
SNIPPET, REGISTER, STUDY = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
COMMANDS = re.findall(r"^continual (.*)", PAGE.read_text(), re.MULTILINE)


def the_class(code):
    """The first class of a program, without the docstrings of its methods, as text."""
    [found] = [node for node in ast.parse(code).body if isinstance(node, ast.ClassDef)]
    for part in found.body:
        if isinstance(part, ast.FunctionDef) and ast.get_docstring(part):
            del part.body[0]
    return ast.unparse(found)


def test_the_class_of_the_page_is_that_of_the_example():
    assert the_class(SNIPPET) == the_class((ROOT / "examples" / "own_method.py").read_text())


def test_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry.registered()))
    names = {}
    for block in (SNIPPET, REGISTER, STUDY):
        exec(compile(block, str(PAGE), "exec"), names)
    table = load("runs/mine")
    assert set(table.method) == {"adam", "cpr", "random_resets"}
    assert table[table.method == "random_resets"].units_reset.max() > 0
    assert "random_resets" in capsys.readouterr().out


def test_the_commands_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry.registered()))
    monkeypatch.setattr(plugins, "_loaded", {})
    Path("my_method.py").write_text(f"{SNIPPET}\n\n{REGISTER}")
    run, report = map(shlex.split, COMMANDS)
    assert cli.main([*run, "--scale", "smoke", "--seeds", "1", "--quiet"]) == 0
    table = load("runs/mine")
    assert set(table.method) == {"adam", "cpr", "random_resets"}
    assert table[table.method == "random_resets"].units_reset.max() > 0
    assert cli.main(report) == 0
    assert "Random resets" in Path("report.html").read_text()


def test_names_that_cannot_be_registered():
    with pytest.raises(registry.RegistryError, match=r"'cpr' already, .*CPR;"):
        register("cpr", ReDo)
    with pytest.raises(registry.RegistryError, match=r"lower-case letters.*got 'My method'"):
        register("My method", ReDo)
    with pytest.raises(
        registry.RegistryError, match="color must have the form '#0072B2', got 'blue'"
    ):
        register("mine", ReDo, color="blue")
    with pytest.raises(TypeError, match="must be a subclass of ResetMethod"):
        register("mine", CPR())  # pyright: ignore
    with pytest.raises(registry.RegistryError, match=r"mine: 'redo' has the label 'ReDo' already"):
        register("mine", ReDo)
    with pytest.raises(registry.RegistryError, match=r"label must be a line of at most 64 letters"):
        register("mine", ReDo, label="two\nlines")
    register("cpr", CPR)  # the same one again
    with pytest.raises(registry.RegistryError, match=r"Did you mean 'cpr'.*Valid: cpr, cbp"):
        registry.get("cprr")
