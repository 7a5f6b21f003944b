"""A reset method of one's own in a study: the page says how, and it runs as printed."""

import re
from pathlib import Path

import pytest

from continual_learning.analysis import load
from continual_learning.experiments import methods
from continual_learning.experiments.errors import StudyError
from continual_learning.optim import CPR

PAGE = Path(__file__).parents[2] / "docs" / "your_own_method.md"


def test_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(methods, "RESETS", dict(methods.RESETS))
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1]
    exec(compile(code, str(PAGE), "exec"), {})
    table = load("runs/mine")
    assert set(table.method) == {"adam", "cpr", "random_resets"}
    assert table[table.method == "random_resets"].units_reset.max() > 0
    assert "random_resets" in capsys.readouterr().out


def test_names_that_cannot_be_registered():
    with pytest.raises(StudyError, match="There is a reset method 'cpr' already: CPR"):
        methods.register_reset_method("cpr", methods.RESETS["redo"])
    with pytest.raises(TypeError, match="must be a subclass of ResetMethod"):
        methods.register_reset_method("mine", CPR())  # pyright: ignore
    methods.register_reset_method("cpr", CPR)  # the same one again
