"""Two properties of every unit of random programs."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import trace_units
from tests.optim.random_programs import programs
from tests.optim.rollouts import jit
from tests.optim.unit_checks import assert_complete, check_units, randomized

PERMUTED = "has several outputs of one kernel in one unit"
WITH_INPUTS = "is read together with other units by one weight"
UNFOLLOWED = "adds to what parameters that are not followed make of the input"


@hypothesis.given(programs())
def test_units_of_random_programs(program):
    x = jax.random.normal(jax.random.key(0), (2, *program.points[0]))
    params = {name: jnp.ones(shape) for name, shape in program.params.items()}
    graph = trace_units(program, params, x)
    assert_complete(graph)
    strange = "strange" in program.words
    check_units(program, graph, params, x, units=1, statistics=True, matter=not strange)
    if strange:
        return
    # Nothing is refused but sums of a layer's outputs, and inputs that are normalized with units,
    # or by norms with parameters to which units are added.
    allowed = {PERMUTED}
    if {"norm", "layernorm"} & set(program.words):
        allowed |= {"meets no unit in 'add'", "meets no unit in 'mul'", UNFOLLOWED}
    if "layernorm" in program.words:
        allowed |= {WITH_INPUTS}
    reasons = {reason.rpartition(", which ")[-1] for _, reason in graph.untraced}
    assert reasons <= allowed, graph.untraced


@hypothesis.settings(max_examples=max(5, hypothesis.settings().max_examples // 10))
@hypothesis.given(programs())
def test_features_of_random_programs(program):
    x = jax.random.normal(jax.random.key(0), (3, *program.points[0]))
    params = randomized({name: jnp.ones(shape) for name, shape in program.params.items()})
    graph = trace_units(program, params, x[:1])
    try:
        found = jit(graph.with_features(program))(params, x)
    except ValueError as refused:
        # Of a layer one column of which chooses between others, the rest is not read.
        assert "strange" in program.words and "no weight reads units" in str(refused)
        return
    expected = jit(program.__call__)(params, x)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), found[0], expected
    )
    for layer in graph.layers:
        for arrays in found[1:]:
            batch, *_, units = arrays[layer.name].shape
            assert (batch, units) == (3, layer.size)
