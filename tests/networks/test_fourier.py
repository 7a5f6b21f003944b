"""Learned Fourier features: parity with the authors' code, their units, and their description.

tests/golden/fourier_features.npz holds the weights, the inputs, the outputs and the gradient of the
sum of squared outputs with respect to B of `FourierMLP` in state-SAC-LFF/models/mlp.py of
github.com/alexlioralexli/learned-fourier-features at commit b1fd7a1, run with
`concatenate_fourier=True`, `fourier_dim=12`, `n_hidden=1` and seed 0 in float64.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning.networks import MLP
from continual_learning.networks.catalog import ActorCriticMLPs, MLPs
from continual_learning.optim import trace_units
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, registry
from tests.optim.rollouts import jit
from tests.optim.unit_checks import assert_complete, check_units, linen

GOLDEN = Path(__file__).parents[1] / "golden" / "fourier_features.npz"


def test_the_authors_network():
    with np.load(GOLDEN, allow_pickle=False) as file:
        g = {name: jnp.asarray(file[name], jnp.float32) for name in file}
    network = MLP((4,), 2, "relu", fourier=4)  # 12 features of 3 inputs
    params = {
        "fourier": {"kernel": g["B"]},
        "hidden_0": {"kernel": g["hidden_kernel"], "bias": g["hidden_bias"]},
        "output": {"kernel": g["output_kernel"], "bias": g["output_bias"]},
    }
    made = jax.eval_shape(network.init, jax.random.key(0), g["x"])["params"]
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, made)

    def loss(params):
        out = jnp.asarray(network.apply({"params": params}, g["x"]))
        return jnp.sum(out**2), out

    grads, out = jit(jax.grad(loss, has_aux=True))(params)
    np.testing.assert_allclose(out, g["out"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grads["fourier"]["kernel"], g["B_grad"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("inputs", "number", "width"), [(3, 4, 6), (3, 1, 2), (1, 1, 1)])
def test_number_and_scale_of_features(inputs, number, width):
    network = MLP((2,), 1, fourier=number, fourier_scale=0.5)
    params = network.init(jax.random.key(0), jnp.zeros((1, inputs)))["params"]
    assert params["fourier"]["kernel"].shape == (inputs, width)
    assert params["hidden_0"]["kernel"].shape == (inputs + 2 * width, 2)
    wide = MLP((2,), 1, fourier=200, fourier_scale=0.5).init(jax.random.key(1), jnp.zeros((1, 9)))
    assert np.std(wide["params"]["fourier"]["kernel"]) == pytest.approx(0.5, rel=0.1)


def test_the_option_leaves_the_draws_of_other_layers_alone():
    def init(**options):
        return MLP((4, 4), 2, **options).init(jax.random.key(0), jnp.zeros((1, 3)))["params"]

    plain, more = init(), init(fourier=2)
    assert set(plain) == {"hidden_0", "hidden_1", "output"} and set(more) - set(plain) == {
        "fourier"
    }
    for name in ("hidden_1", "output"):
        jax.tree.map(np.testing.assert_array_equal, plain[name], more[name])


@pytest.mark.parametrize("activation", ["tanh", "crelu"])
def test_a_unit_owns_its_sine_and_its_cosine(activation):
    apply, params, x = linen(MLP((4,), 2, activation, fourier=2), 3)
    graph = trace_units(apply, params, x)
    assert [layer.size for layer in graph.layers] == [3, 4] and not graph.untraced
    [read] = graph.layers[0].outgoing
    np.testing.assert_array_equal(read.index, [-1, -1, -1, 0, 1, 2, 0, 1, 2])
    assert_complete(graph)
    check_units(apply, graph, params, x)
    _, features, preactivations = jit(graph.with_features(apply))(params, x)
    h, z = features["params/fourier/kernel"], preactivations["params/fourier/kernel"]
    waves = np.stack([np.sin(2 * np.pi * z[:, 0]), np.cos(2 * np.pi * z[:, 0])], axis=1)
    np.testing.assert_allclose(h, waves, atol=1e-6)


def test_descriptions():
    for networks in (MLPs(fourier=2, fourier_scale=0.1), ActorCriticMLPs(fourier=2)):
        made = networks.build("critic", 1)
        assert (made.fourier, made.fourier_scale) == (2, networks.fourier_scale)
    assert MLPs().fourier == 0
    with pytest.raises(StudyError, match="fourier must be at least 0, got -1"):
        MLPs(fourier=-1)
    with pytest.raises(ValueError, match="fourier must be at least 0, got -1"):
        MLP((2,), 1, fourier=-1)


def test_resets_draw_fresh_frequencies_at_their_own_scale(monkeypatch):
    drawn = []

    def transformation(method, units, *, init, **rest):
        drawn.append(init)

    monkeypatch.setattr("continual_learning.studies.methods.transformation", transformation)
    for fourier in (0, 3):
        experiment = registry.get("permuted_digits").override(fourier=fourier)
        build.optimizers(experiment, "cpr")(0)(None, {})
    assert drawn == ["he_uniform", "as_initialized"]
