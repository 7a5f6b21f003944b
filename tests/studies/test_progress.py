"""What is shown while a study runs."""

import numpy as np
import pytest

from continual_learning.studies import progress
from continual_learning.studies.runner import Progress


def told(done, chunks=4, seconds=2.0):
    columns = {"task": np.array([0, 1, 0, 1]), "value": np.array([0.0, 0.5, 0.0, 0.7])}
    return Progress("cpr", done, chunks, seconds, 1000, columns)


def test_a_line_says_the_newest_value_the_speed_and_the_time_left():
    assert progress.line(told(1), "value") == "value 0.6000, 500 steps/s, 0:06 left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (61, "1:01"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_durations(seconds, text):
    assert progress.duration(seconds) == text


def test_lines_come_now_and_then_and_at_the_end():
    said = []
    lines = progress._Lines(said.append, every=1000.0)
    lines.method("cpr", 0, 4)
    for done in (1, 2, 3, 4):
        lines.chunk(told(done), "value")
    lines.method("cbp", 2, 4)
    assert [text.split(",")[0] for text in said] == [
        "cpr: begins",
        "cpr: chunk 1/4",
        "cpr: chunk 4/4",
        "cbp: goes on",
    ]


def test_bars_of_the_study_and_of_each_method():
    with progress._Bars(2) as bars:
        bars.method("cpr", 0, 4)
        bars.chunk(told(2), "value")
        study, method = bars.bars.tasks
        assert (study.completed, method.completed, method.total) == (0.5, 2, 4)
        assert "value 0.6000" in method.fields["text"]
        bars.chunk(told(4), "value")
        bars.method("cbp", 1, 4)
        bars.chunk(told(2), "value")
        assert bars.bars.tasks[0].completed == 1.5


def test_quiet_is_quiet(capsys):
    with progress.display(True, 1) as shown:
        shown.method("cpr", 0, 1)
        shown.chunk(told(1, 1), "value")
    assert capsys.readouterr().out == ""
