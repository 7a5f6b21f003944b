"""What is left of tasks, on hand-made evaluations."""

import numpy as np
import pytest

from continual_learning.analysis.curves import Curves
from continual_learning.analysis.forgetting import column, forgetting

NAN = np.nan


def made(*values, tasks=(0, 0, 1, 1, 2, 2), **fields):
    rows = np.asarray(values, np.float64)
    seeds, points = map(np.arange, rows.shape)
    return Curves("cpr", "x", seeds, 10 * (points + 1), np.array(tasks), rows, **fields)


THREE = {
    "a": made([NAN, 0.8, NAN, 0.4, NAN, 0.2], [NAN, 1.0, NAN, 1.0, NAN, 0.5]),
    "b": made([NAN, NAN, NAN, 0.6, NAN, 0.3], [NAN, NAN, NAN, 0.0, NAN, 0.25]),
    "c": made([NAN, NAN, NAN, NAN, NAN, 0.9], [NAN, NAN, NAN, NAN, NAN, 0.0]),
}


def test_by_hand():
    found = forgetting(THREE, ["a", "b", "c"])
    assert found.tasks == ("a", "b")  # nothing came after the last
    np.testing.assert_allclose(found.learned, [[0.8, 0.6], [1.0, 0.0]])
    np.testing.assert_allclose(found.kept, [[0.2, 0.3], [0.5, 0.25]])
    np.testing.assert_allclose(found.forgetting, [[0.6, 0.3], [0.5, -0.25]])
    np.testing.assert_allclose(found.retention, [0.5 / 1.4, 0.75])


def test_until_an_earlier_task():
    found = forgetting(THREE, ["a", "b"])
    assert found.tasks == ("a",)
    np.testing.assert_allclose(found.forgetting, [[0.4], [0.0]])
    np.testing.assert_allclose(found.retention, [0.5, 1.0])
    none = forgetting(THREE, ["a"])
    assert none.tasks == () and none.forgetting.shape == (2, 0)
    assert np.isnan(none.retention).all()


def test_a_task_that_comes_again_counts_from_the_last_time():
    tasks = (0, 1, 2, 3)
    a = made([0.9, 0.1, 0.7, 0.2], tasks=tasks)
    b = made([NAN, 0.5, 0.0, 0.8], tasks=tasks)
    found = forgetting({"a": a, "b": b}, ["a", "b", "a", "b"])
    assert found.tasks == ("a",)
    np.testing.assert_allclose(found.forgetting, [[0.5]])


def test_what_was_never_learned_is_not_retained():
    zero = made([0.0, 0.0], [0.0, 0.3], tasks=(0, 1))
    found = forgetting({"a": zero, "b": zero}, ["a", "b"])
    assert np.isnan(found.retention).all()
    np.testing.assert_allclose(found.forgetting, [[0.0], [-0.3]])


def test_a_seed_that_is_behind():
    a = made([0.5, 0.5], [0.5, NAN], tasks=(0, 1))
    found = forgetting({"a": a, "b": a}, ["a", "b"])
    np.testing.assert_allclose(found.forgetting, [[0.0], [NAN]])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("asterix",), "eval_asterix"),
        (("pick-place", "success"), "eval_pick_place_success"),
        (("seen", "success"), "eval_seen_success"),
        (("Pendulum-v1",), "eval_Pendulum_v1"),
    ],
)
def test_columns(words, name):
    assert column(*words) == name


def test_columns_are_those_that_are_written():
    from continual_learning.agents.common import host_evaluate

    for task in ("pick-place", "Pendulum-v1", "button-press-topdown"):
        assert column(task) == f"eval_{host_evaluate.column(task)}"
