"""Forgetting and retention, by hand."""

import numpy as np
import pytest

from continual_learning.analysis.curves import Curves
from continual_learning.analysis.forgetting import forgetting

NONE = np.nan
TASKS = [0, 0, 1, 1, 2, 2]


def curve(*values, metric="eval_x_success"):
    values = np.array(values, float)
    steps = np.arange(1, values.shape[1] + 1) * 10
    seeds = np.arange(len(values))
    return Curves("cpr", metric, seeds, steps, np.array(TASKS), values)


def test_by_hand():
    """Two seeds; evaluations at every second point, at the ends of tasks, and one between."""
    one = curve([0.2, 0.8, NONE, 1.0, NONE, 0.4], [NONE, 0.5, NONE, 0.25, NONE, 0.0])
    two = curve([NONE, NONE, NONE, 0.6, NONE, 0.9], [NONE, NONE, NONE, 0.0, NONE, 0.0])
    three = curve([NONE] * 5 + [0.7], [NONE] * 5 + [0.3])
    found = forgetting([one, two, three])
    np.testing.assert_allclose(found.learnt, [[0.8, 0.6, 0.7], [0.5, 0.0, 0.3]])
    np.testing.assert_allclose(found.final, [[0.4, 0.9, 0.7], [0.0, 0.0, 0.3]])
    np.testing.assert_allclose(found.forgetting, [[0.6, 0.0, NONE], [0.5, 0.0, NONE]])
    np.testing.assert_allclose(found.retention, [[0.5, 1.5, NONE], [0.0, NONE, NONE]])


def test_a_task_that_was_never_met():
    found = forgetting([curve([0.5] * 6), curve([NONE] * 6)])
    assert np.isnan([each[:, 1] for each in found]).all()
    np.testing.assert_allclose(found.forgetting[:, 0], 0)


def test_what_cannot_be():
    with pytest.raises(ValueError, match="at least one task"):
        forgetting([])
    other = curve([0.5] * 6, [0.5] * 6, metric="eval_y_success")
    with pytest.raises(ValueError, match="eval_y_success has others than eval_x_success"):
        forgetting([curve([0.5] * 6), other])
