"""A problem with a known optimum: `max_reset` 0.03 and `every` 200, far from the defaults."""

import jax
import jax.numpy as jnp
import pytest

from continual_learning.agents.common.trainer import Trainer
from continual_learning.studies import build, registry

SPEC = registry.get("permuted_digits").override(tasks=9, seeds=3, rows_per_task=1)
BEST = {"max_reset": 0.03, "every": 200}


def trainer(experiment, method, shared):
    """A chunk is a task with two rows; the longer it trains, the clearer the hill."""
    own = {"max_reset": 0.015, "every": 1000, **experiment.methods[method].options}
    steps, rows = experiment.steps_per_task, 2

    def init(key, hyper, data):
        return {"key": key, "done": jnp.int32(0), "trained": jnp.zeros(())}

    def chunk(state, hyper, data):
        rho, every = (hyper.get(name, own[name]) for name in BEST)
        trained = state["trained"] + 1
        height = 1 - (jnp.log10(rho) - jnp.log10(BEST["max_reset"])) ** 2
        height -= 0.01 * jnp.abs(every - BEST["every"]) / 100
        height = jnp.where(rho > 0.9, jnp.nan, height)
        noise = 0.001 * jax.random.normal(jax.random.fold_in(state["key"], state["done"]))
        out = {
            "step": state["done"] * steps
            + jnp.arange(1, rows + 1) * (steps // rows)
            + steps % rows,
            "task": jnp.full((rows,), state["done"]),
            "test_accuracy": jnp.stack([jnp.zeros(()), 2 * (height * trained + noise)]),
        }
        return {"key": state["key"], "done": state["done"] + 1, "trained": trained}, out

    return Trainer(init, chunk, experiment.tasks, (), "test_accuracy")


@pytest.fixture
def hill(monkeypatch, tmp_path):
    """Studies of `permuted_digits` are on the hill."""
    monkeypatch.setattr(build, "trainer", trainer)
    monkeypatch.setattr(build, "data", lambda experiment: ())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path
