"""The example of docs/data.md works as printed."""

import re
from pathlib import Path

import numpy as np
import pytest


def test_the_example_runs():
    pytest.importorskip("sklearn")
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(code, names)
    assert names["x"].shape == (8, 64) and names["x"].dtype == np.float32
    assert names["y"].shape == (8,) and names["y"].dtype == np.int32
    assert [part.shape for part in names["held_out"]] == [(360, 64), (360,), (360,)]
