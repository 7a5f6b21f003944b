"""Streams of task parameters."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.envs import (
    Delayed,
    Episodes,
    Integers,
    LogUniform,
    TaskStream,
    Uniform,
    Values,
)
from continual_learning.envs.draws import parse_changes, parse_draw
from tests.envs.toys import Counter

KEY = jax.random.key(5)


def drawn(draw, count=4000):
    keys = jax.random.split(KEY, count)
    return np.asarray(jax.vmap(draw)(keys, jnp.arange(count)))


def test_log_uniform_has_as_many_values_below_as_above_the_geometric_mean():
    values = drawn(LogUniform(0.02, 2.0))
    assert values.min() >= 0.0199 and values.max() <= 2.001
    assert np.mean(values < 0.2) == pytest.approx(0.5, abs=0.03)


def test_uniform_and_integers():
    assert drawn(Uniform(1.0, 3.0)).mean() == pytest.approx(2.0, abs=0.05)
    counts = np.bincount(drawn(Integers(0, 8)).astype(int))
    assert len(counts) == 9 and counts.min() > 350


def test_both_ends_of_an_interval_are_drawn_together():
    """All 36 pairs of different numbers from 0 to 8 are as likely; each parameter has its own."""
    env = Delayed(Counter(), 8, 8, interval=True)
    changes = parse_changes("observation_delay = interval(0, 8); action_delay = interval(0, 8)")
    stream = TaskStream(env, changes)
    tasks = jax.vmap(lambda i: stream.task(KEY, i))(jnp.arange(7200))
    for name in ("action_delay", "observation_delay"):
        low, high = (np.asarray(tasks[n]).astype(int) for n in (name, f"{name}_high"))
        assert (low < high).all() and low.min() == 0 and high.max() == 8
        counts = np.bincount(9 * low + high)
        counts = counts[counts > 0]
        assert len(counts) == 36 and counts.min() > 140 and counts.max() < 260
    assert np.mean(tasks["action_delay"] == tasks["observation_delay"]) < 0.3


def test_values_come_in_order_over_and_over():
    draw = Values(1.0, 2.0, 5.0)
    assert [float(draw(KEY, jnp.int32(i))) for i in range(5)] == [1.0, 2.0, 5.0, 1.0, 2.0]


def test_a_task_depends_on_key_and_number_alone_and_others_keep_their_values():
    stream = TaskStream(Counter(), {"start": Uniform(0.0, 1.0)})
    again = [stream.task(KEY, jnp.int32(3)) for _ in range(2)]
    other = stream.task(KEY, jnp.int32(4))
    seed = stream.task(jax.random.key(6), jnp.int32(3))
    assert again[0] == again[1]
    assert len({float(task["start"]) for task in (again[0], other, seed)}) == 3
    assert float(other["unused"]) == 3.0
    assert all(value.dtype == jnp.float32 for value in other.values())


def test_a_function_of_ones_own():
    stream = TaskStream(Counter(), {"start": lambda key, index: 10.0 * index})
    assert float(stream.task(KEY, jnp.int32(4))["start"]) == 40.0


@pytest.mark.parametrize(
    ("changes", "names", "distinct"),
    [
        ({}, (), {"task_0": 0}),
        ({"start": Values(5, 6, 5)}, (), {"task_0": 0, "task_1": 1}),
        # (5, 1), (6, 1), (5, 2), (6, 1), (5, 1)
        (
            {"start": Values(5, 6), "unused": Values(1, 1, 2)},
            (),
            {f"task_{i}": i for i in range(3)},
        ),
        ({"start": Values(5), "unused": Uniform(0, 1)}, (), {f"task_{i}": i for i in range(5)}),
        ({"start": Values(5, 6, 5)}, ("a", "b", "a"), {"a": 0, "b": 1}),
    ],
)
def test_distinct_tasks(changes, names, distinct):
    assert TaskStream(Counter(), changes, names).distinct(5) == distinct


def test_distinct_tasks_have_distinct_names():
    with pytest.raises(ValueError, match=r"Tasks that differ must have different names.*'a', 'a'"):
        TaskStream(Counter(), {"start": Values(5, 6)}, ("a", "a")).distinct(2)


def test_a_parameter_that_is_not_there():
    with pytest.raises(ValueError, match=r"Counter has no task parameter 'friction'.*start"):
        TaskStream(Counter(), {"friction": Uniform(0.0, 1.0)})


def test_text():
    assert parse_draw("log_uniform(0.02, 2.0)") == LogUniform(0.02, 2.0)
    assert parse_draw(" integers( 0 , 8 ) ") == Integers(0, 8)
    assert parse_draw("0.5") == Values(0.5)
    found = parse_changes("friction = log_uniform(0.02, 2); gravity = 0.5;")
    assert found == {"friction": LogUniform(0.02, 2.0), "gravity": Values(0.5)}
    assert parse_changes("") == {}
    with pytest.raises(ValueError, match="a_high is given twice"):
        parse_changes("a_high = 1; a = interval(0, 2)")


@pytest.mark.parametrize(
    "text",
    [
        "normal(0, 1)",
        "interval(2, 2)",
        "interval(0, 0.5)",
        "interval(0, 1, 2)",
        "uniform(1)",
        "uniform(2, 1)",
        "log_uniform(0, 1)",
        "integers(0, 1.5)",
        "values()",
        "uniform(a, b)",
        "uniform(0, inf)",
        "",
        "__import__('os')",
    ],
)
def test_text_that_says_no_draw(text):
    with pytest.raises(ValueError, match="Valid: a number, uniform"):
        parse_draw(text)


@pytest.mark.parametrize("text", ["friction", "= 3", "a b = 1"])
def test_text_that_says_no_change(text):
    with pytest.raises(ValueError, match="write PARAMETER = DRAW"):
        parse_changes(text)


def test_a_parameter_given_twice():
    with pytest.raises(ValueError, match="given twice"):
        parse_changes("a = 1; a = 2")


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text):
    try:
        parse_draw(text)
    except ValueError as error:
        assert "Valid" in str(error)


def test_the_environment_on_the_page_runs():
    text = (Path(__file__).parents[2] / "docs" / "robots.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    made: dict[str, Any] = {"__name__": "page"}
    sys.modules["page"] = ModuleType("page")  # where dataclasses look their class up
    exec(compile(code, "docs/robots.md", "exec"), made)
    episodes, task = Episodes(made["Target"](), count=3, length=4), made["task"]
    live = episodes.live(episodes.begin(KEY, task), task)
    live, timestep = episodes.step(live, jnp.ones((3, 1)), task)
    assert timestep.reward.shape == (3,) and (timestep.reward <= 0).all()
    assert task["drift"] == np.float32(0.01) and -1 <= task["target"] < 1
