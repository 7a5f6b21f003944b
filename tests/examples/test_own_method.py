"""The example that adds a method, and how long it is."""

import ast
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"


def load():
    spec = importlib.util.spec_from_file_location("own_method", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_method_takes_less_than_forty_lines():
    tree = ast.parse(EXAMPLE.read_text())
    method = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    assert method.end_lineno is not None
    assert method.end_lineno - method.lineno < 40


def test_it_resets_about_the_share_that_was_asked_for():
    module = load()
    params = [jnp.ones((3, 200)), jnp.ones((200, 2))]
    state = module.tx.init(params)
    update = jax.jit(module.tx.update)
    for _ in range(21):
        updates, state = update(jax.tree.map(jnp.ones_like, params), state, params)
    np.testing.assert_allclose(state.log.total[0], 0.5 * 200 * 2, rtol=0.15)
    np.testing.assert_array_equal(state.log.resets, [2])
    zeroed = np.asarray(updates[1] == -1).all(axis=1)
    np.testing.assert_allclose(zeroed.sum(), state.log.amount[0])


def test_its_numbers_may_be_swept():
    module = load()
    graph, step = SimpleNamespace(shape=(2, 3)), SimpleNamespace(key=jax.random.key(0))
    rates = jnp.array([0.0, 1.0])

    def mean_amount(rate):
        return module.RandomResets(rate=rate).amount(graph, (), step).reset.mean()

    np.testing.assert_array_equal(jax.vmap(mean_amount)(rates), rates)
