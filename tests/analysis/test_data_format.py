"""The commands in docs/data_format.md."""

import importlib.util
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from continual_learning.studies.store.store import Store
from tests.studies.toy_study import ENVIRONMENT, STUDY, rows_of, state_after, train

PAGE = (Path(__file__).parents[2] / "docs" / "data_format.md").read_text()
PYTHON = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
BASH = re.findall(r"^```bash\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def study(tmp_path, monkeypatch):
    """The study of the page; two methods measure more than the others."""
    monkeypatch.chdir(tmp_path)
    with Store.create("runs/digits", STUDY, ENVIRONMENT) as store:
        store.write_part("adam", 0, rows_of(0) | {"loss": np.ones(12)})
        store.save("adam", 0, state_after(0))
        store.write_part("redo", 0, rows_of(0) | {"resets": np.ones(12)})
        train(store, "cpr", 3)


@pytest.mark.parametrize("code", PYTHON)
def test_python(code):
    for module in re.findall(r"^import (\w+)", code, flags=re.MULTILINE):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    names = {}
    exec(code, names)
    if "frame" in names:
        assert len(names["frame"]) in (60, 4)
        assert "accuracy" in names["frame"]
    if "concat" in code or "analysis import load" in code:
        assert {"loss", "resets"} < set(names["frame"].columns)
    if "np.load" in code:
        np.testing.assert_array_equal(names["weights"], state_after(2)["net"]["w"][0])
    if "restore(" in code:
        assert names["chunk"] == names["state"]["chunk"] == 2


@pytest.mark.parametrize("code", BASH)
def test_bash(code):
    subprocess.run(["bash", "-ec", code], check=True)


def test_there_are_commands():
    assert len(PYTHON) == 8 and len(BASH) == 1
