"""Gates: units that meet one to one in a product are one."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CBP, attach_reset_method, trace_units
from tests.optim.unit_checks import assert_complete, check_units

X = jax.random.normal(jax.random.key(0), (2, 3))


def swiglu(p, x):
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def glu(p, x):
    return jax.nn.glu(x @ p["both"] + p["b"][None]) @ p["down"]


def squeeze_and_excite(p, x):
    dims = ("NHWC", "HWIO", "NHWC")
    h = jax.lax.conv_general_dilated(
        x[:, :, None, None], p["conv"], (1, 1), "SAME", dimension_numbers=dims
    )
    gate = jax.nn.sigmoid(jnp.sin(h.mean((1, 2)) @ p["squeeze"]) @ p["excite"])
    return (h * gate[:, None, None]).mean((1, 2)) @ p["out"]


# id: (program, shapes, {layer: (incoming, bias and norm, outgoing)})
CASES = {
    "swiglu": (
        swiglu, {"gate": (3, 4), "up": (3, 4), "down": (4, 2)},
        {"gate": ({"gate", "up"}, set(), {"down"})},
    ),
    "glu": (
        glu, {"both": (3, 8), "b": (8,), "down": (4, 2)}, {"both": ({"both"}, {"b"}, {"down"})},
    ),
    "squeeze and excite": (
        squeeze_and_excite,
        {"conv": (1, 1, 1, 4), "squeeze": (4, 2), "excite": (2, 4), "out": (4, 2)},
        {"conv": ({"conv", "excite"}, set(), {"squeeze", "out"}),
         "squeeze": ({"squeeze"}, set(), {"excite"})},
    ),
    "product of two inputs": (  # as implicit quantile networks have it
        lambda p, x: jnp.tanh((x @ p["a"]) * jnp.cos(x[:, :1] @ p["t"]) @ p["b"]) @ p["c"],
        {"a": (3, 4), "t": (1, 4), "b": (4, 5), "c": (5, 2)},
        {"a": ({"a", "t"}, set(), {"b"}), "b": ({"b"}, set(), {"c"})},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_gates(case):
    apply, shapes, layers = CASES[case]
    params = {name: jnp.ones(shape) for name, shape in shapes.items()}
    graph = trace_units(apply, params, X)
    found = {
        layer.name: tuple(
            {link.param for link in links}
            for links in (layer.incoming, layer.bias + layer.scale, layer.outgoing)
        )
        for layer in graph.layers
    }
    assert found == layers
    assert graph.untraced == ()
    assert_complete(graph)
    check_units(apply, graph, params, X)


def test_both_halves_of_a_kernel_belong_to_the_unit():
    params = {"both": jnp.ones((3, 8)), "b": jnp.ones(8), "down": jnp.ones((4, 2))}
    (layer,) = trace_units(glu, params, X).layers
    np.testing.assert_array_equal(layer.incoming[0].index, [0, 1, 2, 3] * 2)
    np.testing.assert_array_equal(layer.bias[0].index, [0, 1, 2, 3] * 2)


def test_features_of_a_gate():
    rng = np.random.default_rng(0)
    params = {
        name: jnp.asarray(rng.normal(size=shape), jnp.float32)
        for name, shape in CASES["swiglu"][1].items()
    }
    graph = trace_units(swiglu, params, X)
    _, features, pre = jax.jit(graph.with_features(swiglu))(params, X)
    gate = X @ params["gate"]
    expected = jax.nn.silu(gate) * (X @ params["up"])
    np.testing.assert_allclose(features["gate"], expected, rtol=1e-5)
    np.testing.assert_allclose(pre["gate"], gate, rtol=1e-5)


def test_a_reset_of_a_gate_takes_both_sides():
    params = {name: jnp.ones(shape) for name, shape in CASES["swiglu"][1].items()}
    method = CBP(replacement_rate=1, maturity=0, init=jax.nn.initializers.constant(7.0))
    graph = trace_units(swiglu, params, X)
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method, units=graph)
    state = tx.init(params)
    features = {"gate": jnp.ones((2, 4))}
    updates, state = tx.update(
        jax.tree.map(jnp.ones_like, params), state, params, features=features
    )
    after = optax.apply_updates(params, updates)
    np.testing.assert_array_equal(after["gate"], 7)
    np.testing.assert_array_equal(after["up"], 7)
    np.testing.assert_array_equal(after["down"], 0)
