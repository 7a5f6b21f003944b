"""The example runs, resets units of every layer, and prints the graph that README shows."""

import importlib.util
from pathlib import Path

import jax.numpy as jnp

ROOT = Path(__file__).parents[2]


def test_it_runs_and_prints_what_readme_shows(capsys):
    spec = importlib.util.spec_from_file_location("linen_cnn", ROOT / "examples" / "linen_cnn.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    state = module.main(steps=12)
    assert (state.opt_state.log.total > 0).all()
    assert all(jnp.isfinite(x).all() for x in state.params["params"]["Conv_0"].values())
    table = capsys.readouterr().out.split("hidden units")[0]
    assert table in (ROOT / "README.md").read_text()
