"""Functions of one seed over lanes: the same for one as for many, but without a batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.agents.common.lanes import over_lanes
from continual_learning.agents.sac.calls import Step

STEP = Step(np.int32(3), *(jnp.arange(4.0).reshape(2, 2) * i for i in (1, 10, 100)))
"""Of two lanes."""


def parts(key, hyper, step, shared):
    """What a lane sees of its arguments, and a constant that is no argument's."""
    noise = jax.random.normal(key, (2,))
    assert step.number.shape == shared.shape == () and step.action.shape == (2,)
    return {"noise": noise, "sum": step._replace(outcome=shared * hyper["rate"]), "one": 1.0}


def lanes_of(first, last):
    keys = jax.vmap(jax.random.key)(jnp.arange(2, dtype=jnp.uint32))
    hyper, number, cut = {"rate": jnp.array([0.5, 2.0])}, STEP.number, slice(first, last)
    step = Step(number, *(x[cut] for x in STEP[1:]))
    return keys[cut], {"rate": hyper["rate"][cut]}, step, jnp.float32(7)


@pytest.mark.parametrize("lane", [0, 1])
def test_one_lane_is_that_of_several(lane):
    axes = (0, 0, Step(None, 0, 0, 0), None)
    alone = jax.jit(over_lanes(parts, 1, axes))(*lanes_of(lane, lane + 1))
    both = jax.jit(over_lanes(parts, 2, axes))(*lanes_of(0, 2))
    assert jax.tree.structure(alone) == jax.tree.structure(both)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[lane : lane + 1]), alone, both)
    np.testing.assert_array_equal(alone["sum"].outcome, [[3.5, 14.0][lane]])


def products(lanes):
    """The dimension numbers of all products in the gradient of a layer."""
    loss = over_lanes(jax.grad(lambda w, x: jnp.sum((x @ w) ** 2)), lanes, (0, 0))
    jaxpr = jax.make_jaxpr(loss)(jnp.ones((lanes, 3, 4)), jnp.ones((lanes, 5, 3)))
    return [e.params["dimension_numbers"] for e in jaxpr.eqns if e.primitive.name == "dot_general"]


def test_products_of_one_lane_have_no_batch():
    assert [batch for _, batch in products(1)] == [((), ())] * 2
    assert [batch for _, batch in products(2)] == [((0,), (0,))] * 2


def test_more_lanes_than_were_said_are_an_error():
    with pytest.raises(ValueError, match="squeeze"):
        over_lanes(lambda x: x, 1, (0,))(jnp.ones((2, 3)))
