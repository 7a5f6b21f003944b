"""What a task switch costs and how a method recovers, on hand-made curves."""

import numpy as np
import pytest

from continual_learning.analysis.adaptation import adaptation
from continual_learning.analysis.curves import Curves

NAN = np.nan


def made(values, tasks, **fields):
    values = np.asarray(values, np.float64)
    seeds, points = map(np.arange, values.shape)
    return Curves("cpr", "x", seeds, 10 * (points + 1), np.array(tasks), values, **fields)


def same(found, expected):
    np.testing.assert_allclose(found, expected)


THREE_TASKS = [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_by_hand():
    found = adaptation(
        made([[1, 5, 4, 2, 5, 6, 7, 1, 0], [1, 2, 3, 0, 1, 2, 2, 2, 2]], THREE_TASKS)
    )
    assert found.tasks.tolist() == [0, 1, 2]
    same(found.end, [[4, 6, 0], [3, 2, 2]])
    same(found.area, [[10 / 3, 13 / 3, 8 / 3], [2, 1, 2]])
    same(found.drop, [[NAN, 2, -1], [NAN, 3, 0]])
    # 5 is reached again at the second point of the task, 20 steps after its beginning at 30; 6 at
    # the first of the next one; the other seed never has its 3 again.
    same(found.recovery_steps, [[NAN, 20, 10], [NAN, NAN, NAN]])


def test_the_peak_is_that_of_all_tasks_before():
    """A policy that collapsed has not recovered by being as bad as in the task before."""
    found = adaptation(made([[9, 9, 1, 1, 2, 2, 9, 9]], [0, 0, 1, 1, 2, 2, 3, 3]))
    same(found.recovery_steps, [[NAN, NAN, NAN, 10]])


def test_what_was_not_measured_is_passed_over():
    found = adaptation(made([[NAN, 5, 3, NAN, 1, 6]], [0, 0, 0, 1, 1, 1]))
    same(found.end, [[3, 6]])
    same(found.area, [[4, 3.5]])
    same(found.drop, [[NAN, 2]])
    same(found.recovery_steps, [[NAN, 30]])


def test_a_task_without_its_end_is_not_measured():
    found = adaptation(made([[1, 2, 3, NAN], [1, 2, 3, 4], [NAN] * 4], [0, 0, 1, 1]))
    same(found.end, [[2, NAN], [2, 4], [NAN, NAN]])
    same(found.area, [[1.5, NAN], [1.5, 3.5], [NAN, NAN]])
    same(found.drop, [[NAN, NAN], [NAN, -1], [NAN, NAN]])
    same(found.recovery_steps, [[NAN, NAN], [NAN, 10], [NAN, NAN]])
    gap = adaptation(made([[NAN, NAN, 3, 4]], [0, 0, 1, 1]))  # nothing to compare the second with
    same(gap.drop, [[NAN, NAN]])
    same(gap.area, [[NAN, 3.5]])


@pytest.mark.parametrize(("expected", "tasks"), [(None, 2), (40, 2), (60, 1)])
def test_the_task_in_progress_is_left_out(expected, tasks):
    found = adaptation(made([[1, 2, 3, 4]], [0, 0, 1, 1], expected=expected))
    assert found.tasks.tolist() == [0, 1][:tasks] and found.end.shape == (1, tasks)


def test_one_task_and_none():
    found = adaptation(made([[1, 2]], [5, 5]))
    assert found.tasks.tolist() == [5] and found.end.tolist() == [[2]]
    none = adaptation(made(np.zeros((2, 0)), []))
    assert none.end.shape == (2, 0) and none.tasks.shape == (0,)


def test_steps_at_which_a_task_begins():
    """The first point may be of a bin: what counts is where the one before ended."""
    curves = Curves(
        "cpr",
        "x",
        np.array([0]),
        np.array([100, 150, 160, 400]),
        np.array([0, 0, 1, 1]),
        np.array([[1.0, 2.0, 0.0, 2.0]]),
    )
    same(adaptation(curves).recovery_steps, [[NAN, 250]])
