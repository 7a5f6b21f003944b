"""What a folder runs: lanes with a seed and numbers of their own."""

import numpy as np
import pytest

from continual_learning.analysis import load
from continual_learning.schema.errors import StudyError
from continual_learning.studies import launch, registry
from continual_learning.studies.options import RunOptions
from continual_learning.studies.study import Study

SPEC = registry.get("permuted_digits").override(
    tasks=2, examples_per_task=64, hidden=(8,), diagnostics=False
)
LANES = {"max_reset": [0.5, 0.25, 0.5], "every": [1, 1, 2]}
SEEDS = [3, 3, 4]


def test_plain_data_and_back():
    study = Study(SPEC, ["cpr"], SEEDS, LANES)
    assert Study.from_dict(study.to_dict()) == study
    assert "hyper" not in Study(SPEC, ["adam"], [0]).to_dict()


def test_whole_numbers_stay_whole():
    arrays = Study(SPEC, ["cpr"], SEEDS, LANES).arrays()
    assert arrays["every"].dtype == np.int32 and arrays["max_reset"].dtype == np.float32


def test_numbers_belong_to_one_method():
    with pytest.raises(StudyError, match="one method, got adam, cpr"):
        Study(SPEC, ["adam", "cpr"], SEEDS, LANES)


def test_one_number_for_each_lane():
    with pytest.raises(StudyError, match="every must have one number for each of the 2 lanes"):
        Study(SPEC, ["cpr"], [0, 1], {"every": [1]})


def test_a_lane_is_the_experiment_with_its_numbers(tmp_path):
    launch.run(SPEC, ["cpr"], SEEDS, tmp_path / "lanes", RunOptions(quiet=True), hyper=LANES)
    lanes = load(tmp_path / "lanes")
    assert "3 lanes (seeds and max_reset, every)" in launch.status(tmp_path / "lanes")
    alone = SPEC.override(**{"cpr.max_reset": 0.25, "cpr.every": 1})
    launch.run(alone, ["cpr"], [3], tmp_path / "alone", RunOptions(quiet=True))
    one = load(tmp_path / "alone")
    same = lanes[(lanes.hyper_max_reset == 0.25) & (lanes.seed == 3)]
    np.testing.assert_allclose(same["test_loss"], one["test_loss"], rtol=1e-5)
    other = lanes[(lanes.hyper_max_reset == 0.5) & (lanes.seed == 3)]
    assert not np.allclose(other["test_loss"], one["test_loss"], rtol=1e-4)
