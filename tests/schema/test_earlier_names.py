"""Names that earlier versions wrote go on being read."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from continual_learning.cli import main
from continual_learning.schema.earlier import current, renamed
from continual_learning.studies import registry, spec
from continual_learning.studies.store import arrays
from continual_learning.studies.store.parts import Parts, read_part


def test_names_of_today():
    assert current("recentre") == "recenter"
    assert current("cpr.recentre") == "cpr.recenter"
    assert current("policy_linearised_ratio") == "policy_linearized_ratio"
    assert current("recenter") == "recenter"
    assert current("recentred") == "recentred"


def test_keys_and_values_at_every_depth():
    data = {"methods": {"cpr": {"options": {"recentre": False, "init": "as_initialised"}}}}
    data["list"] = [{"normalise_observations": True}, 3]
    assert renamed(data) == {
        "methods": {"cpr": {"options": {"recenter": False, "init": "as_initialized"}}},
        "list": [{"normalize_observations": True}, 3],
    }


def test_an_experiment_of_an_earlier_version():
    now = registry.get("slippery_ant").override(
        normalize_observations=True, **{"cpr.recenter": False, "cpr.init": "as_initialized"}
    )
    text = spec.dumps(now)
    for earlier, present in (
        ("normalise_", "normalize_"),
        ("recentre", "recenter"),
        ("as_initialised", "as_initialized"),
    ):
        assert present in text
        text = text.replace(present, earlier)
    assert spec.loads(text) == now


@pytest.mark.parametrize(
    "words",
    [
        ["--normalise-observations"],
        ["--set", "normalise_observations=true"],
        ["--set", "agent.normalise_observations=true"],
    ],
)
def test_flags_of_an_earlier_version(words, capsys):
    assert main(["show", "slippery_ant", *words]) == 0
    assert "normalize_observations = true" in capsys.readouterr().out


def test_an_option_of_an_earlier_version(capsys):
    assert main(["show", "slippery_ant", "--set", "cpr.recentre=false"]) == 0
    assert "recenter = false" in capsys.readouterr().out


def test_rows_go_on_by_the_names_that_they_have(tmp_path):
    """A study keeps the names with which it was begun; readers see those of today."""
    rows = {name: np.arange(2) for name in ("seed", "step", "task")}
    earlier, present = (rows | {f"linear{z}ed_ratio": np.ones(2)} for z in ("is", "iz"))
    parts = Parts(tmp_path)
    parts.write("adam", 0, earlier, after=None)
    parts.write("adam", 1, present, after=None)
    for chunk in (0, 1):
        path = parts.path("adam", chunk)
        assert "linearised_ratio" in pq.read_schema(path).names
        assert "linearized_ratio" in read_part(path).column_names


def test_states_of_an_earlier_version(tmp_path):
    arrays.write(tmp_path / "lane.npz", {"learner/normaliser/mean": np.ones(3)})
    [(name, mean)] = arrays.read(tmp_path / "lane.npz", ["learner/normalizer/mean"])
    assert name == "learner/normalizer/mean" and (mean == 1).all()
