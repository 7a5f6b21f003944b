"""The examples of docs/data.md, host.md, metaworld.md, minatar.md and sac.md work as printed."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest


def run(page):
    """What the only example of a page leaves."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(code, names)
    return names


def test_games():
    names = run("minatar.md")
    assert names["env"].games[int(names["task"]["game"])] == "asterix"
    assert names["timestep"].observation.shape == (12, 1000)


def test_sac():
    trainer = run("sac.md")["trainer"]
    state = jax.eval_shape(trainer.init, jax.random.key(0), {}, ())
    _, rows = jax.eval_shape(trainer.chunk, state, {}, ())
    assert trainer.chunks == 4 and rows["eval_freeway"].shape == (5,)


def test_environments_on_the_host():
    pytest.importorskip("gymnasium")
    names = run("host.md")
    assert names["stream"].names == ("Pendulum-v1", "moon")
    assert [each.shape for each in names["returns"]] == [(8,)] * 3
    assert np.concatenate(names["returns"]).max() < 0


def test_soft_actor_critic_on_the_host():
    pytest.importorskip("gymnasium")
    rows = run("metaworld.md")["rows"]
    np.testing.assert_array_equal(rows["step"], [[80], [80]])
    assert np.isfinite(rows["critic_1_loss"]).all()


def test_data_sets():
    pytest.importorskip("sklearn")
    names = run("data.md")
    assert names["x"].shape == (8, 64) and names["x"].dtype == np.float32
    assert names["y"].shape == (8,) and names["y"].dtype == np.int32
    assert [part.shape for part in names["held_out"]] == [(360, 64), (360,), (360,)]
