"""Two properties of every unit of random programs."""

import hypothesis
import jax
import jax.numpy as jnp

from continual_learning.optim import trace_units
from tests.optim.random_programs import programs
from tests.optim.unit_checks import check_units

PERMUTED = "has several outputs of one kernel in one unit"
WITH_INPUTS = "is read together with other units by one weight"


@hypothesis.given(programs())
def test_units_of_random_programs(program):
    x = jax.random.normal(jax.random.key(0), (2, *program.points[0]))
    params = {name: jnp.ones(shape) for name, shape in program.params.items()}
    graph = trace_units(program, params, x)
    strange = "strange" in program.words
    check_units(program, graph, params, x, units=1, statistics=True, matter=not strange)
    if strange:
        return
    # Nothing is refused but sums of a layer's outputs, and inputs that are normalised with units.
    allowed = {PERMUTED}
    if {"norm", "layernorm"} & set(program.words):
        allowed |= {"meets no unit in 'add'", "meets no unit in 'mul'"}
    if "layernorm" in program.words:
        allowed |= {WITH_INPUTS}
    assert {reason for _, reason in graph.untraced} <= allowed, graph.untraced
