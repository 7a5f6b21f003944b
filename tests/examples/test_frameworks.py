"""CPR in the training loop of each framework: three lines, and units of every layer are reset."""

import importlib
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from continual_learning.optim import trace_units

ROOT = Path(__file__).parents[2]
EXAMPLES = ["linen_cnn", "nnx_cnn", "equinox_cnn", "haiku_cnn"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_resets_units_of_every_layer(name, capsys):
    example = importlib.import_module(f"examples.{name}")
    loss, resets = example.main(steps=12)
    assert math.isfinite(loss)
    assert len(resets) == 2 and min(resets.values()) > 0
    table, printed = capsys.readouterr().out.split("hidden units: 80\n")
    assert [line.split(": ")[0] for line in printed.splitlines()] == list(resets)
    if name == "linen_cnn":
        assert table in (ROOT / "docs" / "add_cpr.md").read_text()


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_marks_three_lines(name):
    text = (ROOT / "examples" / f"{name}.py").read_text()
    marked = re.findall(r"^(.*\S)  # (\d)$", text, re.MULTILINE)
    assert [number for _, number in marked] == ["1", "2", "3"]
    calls = [
        "import CPR, attach_reset_method, trace_units",
        "= trace_units(",
        "= attach_reset_method(",
    ]
    assert all(call in line for call, (line, _) in zip(calls, marked, strict=True))
    assert text.count("continual_learning") == 1  # nothing else comes from the package


def test_the_picture_in_the_docs_is_the_examples():
    example = importlib.import_module("examples.linen_cnn")
    model, image = example.ResidualCNN(), jnp.ones((1, 8, 8, 1))
    params = jax.eval_shape(model.init, jax.random.key(0), image)
    drawn = trace_units(model.apply, params, image).to_mermaid()
    assert f"```mermaid\n{drawn}\n```" in (ROOT / "docs" / "units.md").read_text()
