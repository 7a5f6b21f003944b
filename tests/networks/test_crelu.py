"""Concatenated rectifiers: their values, and units that own both halves."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.diagnostics import plasticity_metrics
from continual_learning.networks import CNN, MLP
from continual_learning.networks.catalog import ActorCriticMLPs, CNNs, MLPs
from continual_learning.networks.mlp import crelu
from continual_learning.optim import ReDo, attach_reset_method, trace_units
from continual_learning.optim.scores import contribution
from tests.optim.rollouts import jit
from tests.optim.unit_checks import assert_complete, check_units, linen, randomized

MLP_NET = MLP((4, 3), 2, "crelu")
CNN_NET = CNN((2, 3, 2), (2,), (3,), 2, activation="crelu", plain=True)


@pytest.fixture(scope="module")
def mlp():
    apply, params, x = linen(MLP_NET, 3)
    return apply, randomized(params), x, trace_units(apply, params, x)


def test_both_halves_are_concatenated():
    np.testing.assert_array_equal(crelu(jnp.array([[1.0, -2.0]])), [[1, 0, 0, 2]])


def test_the_next_layer_reads_twice_as_many_features(mlp):
    apply, params, x, _ = mlp
    p = jax.tree.map(np.asarray, params["params"])
    assert p["hidden_1"]["kernel"].shape == (8, 3) and p["output"]["kernel"].shape == (6, 2)
    x = np.asarray(x)
    for name in ("hidden_0", "hidden_1"):
        z = x @ p[name]["kernel"] + p[name]["bias"]
        x = np.concatenate([np.maximum(z, 0), np.maximum(-z, 0)], -1)
    expected = x @ p["output"]["kernel"] + p["output"]["bias"]
    np.testing.assert_allclose(apply(params, mlp[2]), expected, rtol=1e-5)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_unit_owns_both_halves(layer_norm):
    apply, params, x = linen(MLP((4,), 2, "crelu", layer_norm=layer_norm), 3)
    graph = trace_units(apply, params, x)
    [layer] = graph.layers
    assert layer.size == 4 and not graph.untraced
    np.testing.assert_array_equal(layer.outgoing[0].index, [0, 1, 2, 3] * 2)
    assert_complete(graph)
    check_units(apply, graph, params, x, statistics=layer_norm)


def test_channels_own_both_halves():
    apply, params, x = linen(CNN_NET, 12)
    graph = trace_units(apply, params, x)
    assert [layer.size for layer in graph.layers] == [2, 3] and not graph.untraced
    check_units(apply, graph, params, x)


def test_a_reset_zeroes_both_outgoing_rows(mlp):
    _, params, _, graph = mlp
    features = {"params/hidden_0/kernel": jnp.ones((2, 2, 4)).at[..., 1].set(0)}
    features["params/hidden_1/kernel"] = jnp.ones((2, 2, 3))
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=ReDo(threshold=0.1), units=graph)
    zeros = jax.tree.map(jnp.zeros_like, params)

    @jit
    def update(params):
        return tx.update(zeros, tx.init(params), params, features=features, reset=True)[0]

    updates = update(params)
    rows = optax.apply_updates(params, updates)["params"]["hidden_1"]["kernel"]
    assert not rows[jnp.array([1, 5])].any()
    others = jnp.array([0, 2, 3, 4, 6, 7])
    np.testing.assert_array_equal(rows[others], params["params"]["hidden_1"]["kernel"][others])


@pytest.mark.parametrize("network", [MLP_NET, CNN_NET])
def test_features_are_both_halves(network):
    """Else a unit whose pre-activations are all of one sign could count as dormant."""
    apply, params, x = linen(network, 12)
    params = randomized(params)
    graph = trace_units(apply, params, x)
    _, features, preactivations = jit(graph.with_features(apply))(params, x)
    for name in graph.names:
        h, z = features[name], preactivations[name]
        assert h.shape == z.shape
        np.testing.assert_allclose(jnp.mean(h, 1), jnp.mean(jnp.abs(z), 1) / 2, rtol=1e-5)
    plasticity_metrics(features, preactivations)


def test_contribution_where_a_dense_layer_reads_both_halves_of_channels():
    """An entry is multiplied with the mean of the two halves at the pixel that it reads."""
    apply, params, x = linen(CNN_NET, 12)
    params = randomized(params)
    graph = trace_units(apply, params, x)
    _, features, _ = jit(graph.with_features(apply))(params, x)
    leaves = {
        path: params["params"][path.split("/")[1]][path.split("/")[2]] for path in graph.shapes
    }
    found = graph.unpack(contribution(graph, leaves, features, jnp.float32))
    name = graph.names[0]
    z = np.abs(features[name]).reshape(2, 2, 3, 2, 2).mean((0, 3))  # of both halves
    w = np.abs(leaves["params/hidden_0/kernel"]).reshape(3, 2, 2, 2, 3)  # column, half, unit, row
    expected = [np.mean(w[:, :, u] * z[:, :, u].T[:, None, :, None]) for u in (0, 1)]
    np.testing.assert_allclose(found[name], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="has 3 positions, but 'params/hidden_0/kernel' reads 6"):
        contribution(graph, leaves, features | {name: jnp.ones((2, 3, 2))}, jnp.float32)


@pytest.mark.parametrize("networks", [MLPs(), ActorCriticMLPs(), CNNs(hidden=(4,))])
def test_every_description_takes_it(networks):
    assert networks.activation == ("swish" if networks.kind == "actor_critic" else "relu")
    made = type(networks)(activation="crelu").build("policy", 2, image=(2, 3, 2))
    assert made.activation == "crelu"
