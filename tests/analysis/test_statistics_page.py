"""The Python of docs/statistics.md, on a study whose methods are made up."""

import re
from pathlib import Path

import numpy as np
import pytest

from continual_learning.studies import registry, spec
from continual_learning.studies.store.store import Store

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Adam collapses after the first third, CPR does not."""
    monkeypatch.chdir(tmp_path)
    experiment = registry.get("slippery_ant").override(tasks=2)
    steps = np.arange(1, 205) * experiment.agent.row_steps(experiment.stream)
    seeds = np.arange(4)
    index = {"seed": seeds.repeat(len(steps)), "step": np.tile(steps, 4)}
    index["task"] = (index["step"] - 1) // experiment.steps_per_task
    rising = np.minimum(index["step"] / 1e3, 8200) + 10.0 * index["seed"]
    fallen = np.where(index["step"] > steps[-1] / 3, -500.0, rising)
    # The first task is solved in every evaluation but the last, the second one always.
    evaluated = {
        "eval_reach_success": np.where(index["step"] == steps[-1], 0.25, 1.0),
        "eval_push_success": np.where(index["task"] == 1, 1.0, np.nan),
    }
    index |= evaluated
    made = {
        "experiment": spec.to_dict(experiment),
        "methods": ["adam", "cpr"],
        "seeds": [0, 1, 2, 3],
    }
    with Store.create("runs/ant", made, {}) as store:
        store.write_part("adam", 0, index | {"episode_return": fallen})
        store.write_part("cpr", 0, index | {"episode_return": rising})


@pytest.mark.usefixtures("study")
def test_the_page(capsys):
    names = {}
    for code in CODE:
        exec(code, names)
    assert len(CODE) == 5
    assert list(names["methods"]) == ["adam", "cpr"] and names["metric"] == "episode_return"
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("cpr Estimate(value=") and len(said) == 2 + 4
    # Of each seed of Adam: since the bin with the fall in it or the next one, until the end.
    assert all(re.fullmatch(r"\d 1[46]000000 40108032 True 8\d+\.\d+", line) for line in said[2:])
    assert names["found"].end.shape == (4, 2)
    np.testing.assert_array_equal(names["left"].forgetting, [[0.75]] * 4)
    np.testing.assert_array_equal(names["left"].retention, [0.25] * 4)
    assert names["collapsed"](names["curve"].steps, names["curve"].values).all()
    cpr = names["methods"]["cpr"]
    assert not names["collapsed"](cpr.steps, cpr.values, drop=4000.0).any()
