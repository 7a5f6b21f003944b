"""What times of methods say, with times that are made up."""

import json
from pathlib import Path

import pytest

from continual_learning.schema.errors import StudyError
from continual_learning.studies.timings import Timings

# The third round is slow for all: by round, CPR takes 10, 20 and 0 percent longer.
SECONDS = {"adam": [1.0, 2.0, 10.0], "cpr": [1.1, 2.4, 10.0], "cbp": [0.5, 4.0, 20.0]}
FOUND = Timings("slippery_humanoid", 15, 1000, 1800, SECONDS, {"device": "Abacus"})


def test_medians_and_overheads_by_hand():
    adam, cpr, cbp = FOUND.rows()
    assert (adam.method, adam.seconds, adam.steps_per_second) == ("adam", 2.0, 500.0)
    assert adam.hours == 1.0  # 1800 chunks of 2 s
    assert adam.overhead == (0.0, 0.0, 0.0)
    assert cpr.overhead == pytest.approx((10.0, 0.0, 20.0))
    assert cbp.overhead == pytest.approx((100.0, -50.0, 100.0))
    assert FOUND.rounds == 3


def test_the_table_of_the_terminal():
    lines = FOUND.text().splitlines()
    assert lines[0] == "slippery_humanoid on Abacus: 15 seeds, 3 rounds of 1,000 steps"
    assert "over adam" in lines[1]
    assert lines[2].split() == ["adam", "2.000", "s", "500"]
    assert lines[3].split()[4:] == ["+10.0", "%", "+0.0", "…", "+20.0", "%"]


def test_a_file_and_back(tmp_path):
    FOUND.save(tmp_path / "times.json")
    assert Timings.load(tmp_path / "times.json") == FOUND


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": {}},
        {"seconds": {"adam": []}},
        {"seconds": {"adam": [1.0], "cpr": [1.0, 2.0]}},
        {"seconds": {"adam": ["1"]}},
        {"seconds": {"adam": [0.0]}},
        {"seconds": 3},
        {"steps": "many"},
    ],
)
def test_what_is_no_such_file_is_told(tmp_path: Path, change):
    FOUND.save(tmp_path / "times.json")
    data = json.loads((tmp_path / "times.json").read_text())
    (tmp_path / "times.json").write_text(json.dumps(data | change))
    with pytest.raises(StudyError, match=r"times.json is not a file of `continual bench methods"):
        Timings.load(tmp_path / "times.json")
    (tmp_path / "times.json").write_text("{}")
    with pytest.raises(StudyError, match="is not a file of"):
        Timings.load(tmp_path / "times.json")
