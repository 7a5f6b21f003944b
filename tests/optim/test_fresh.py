"""Where fresh weights come from: each kernel's own initial scale, or an initializer."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.networks import MLP
from continual_learning.optim import (
    CBP,
    CPR,
    ReDo,
    ReGraMa,
    ShrinkAndPerturb,
    attach_reset_method,
    trace_units,
)
from continual_learning.optim.fresh import INITIALIZERS, draw
from continual_learning.optim.trees import arrays
from continual_learning.studies import registry
from continual_learning.studies.methods import transformation

METHODS = [CPR(), CBP(), ReDo(0.1, 10), ReGraMa(0.1, 10), ShrinkAndPerturb(0.1, 0.1, 10)]
FULL = {"max_reset": 1.0, "sharpness": 0.0}  # redraws every unit


def normal(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def dense(scale):
    return {
        "layer_0": {"kernel": scale * normal(0, 40, 50)},
        "layer_1": {"kernel": normal(1, 50, 2)},
    }


def redrawn(params, graph=None, reset_method=None):
    """The parameters after every unit was redrawn; the optimizer alone changes nothing."""
    method = reset_method or CPR(**FULL)
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=method, units=graph)

    def reset(params):
        state = tx.init(params)
        grads = jax.tree.map(jnp.ones_like, params)
        updates, state = tx.update(grads, state, params, reset=True)
        return optax.apply_updates(params, updates), state

    return jax.jit(reset)(params)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_every_method_draws_as_initialized_by_default(method):
    assert method.init == "as_initialized"


def test_a_redrawn_kernel_keeps_its_own_initial_scale():
    """LeCun normal would make both 1/√40 and 1/√50."""
    params = {
        "layer_0": {"kernel": 3.0 * normal(0, 40, 50)},
        "layer_1": {"kernel": 0.01 * normal(1, 50, 60)},
        "layer_2": {"kernel": normal(2, 60, 2)},
    }
    new, _ = redrawn(params)
    for layer, scale in (("layer_0", 3.0), ("layer_1", 0.01)):
        assert not np.allclose(new[layer]["kernel"], params[layer]["kernel"])
        np.testing.assert_allclose(new[layer]["kernel"].std(), scale, rtol=0.1)


def test_draws_of_kernels_do_not_repeat_one_another():
    """Neither within one long draw nor between dtypes."""
    params = {f"layer_{i}": {"kernel": normal(i, 40 + i, 41 + i)} for i in range(4)}
    params["layer_1"]["kernel"] = params["layer_1"]["kernel"].astype(jnp.bfloat16)
    new, _ = redrawn(params)
    draws = [new[f"layer_{i}"]["kernel"].astype(float).reshape(-1)[:1600] for i in range(3)]
    correlation = np.abs(np.corrcoef(np.stack(draws)) - np.eye(3))
    assert correlation.max() < 0.1
    assert new["layer_1"]["kernel"].dtype == jnp.bfloat16


def test_the_scale_is_that_of_init_not_of_today():
    params = dense(1.0)
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=CPR(**FULL))
    state = tx.init(params)
    grown = jax.tree.map(lambda w: 100 * w, params)
    updates, _ = tx.update(jax.tree.map(jnp.ones_like, grown), state, grown, reset=True)
    new = optax.apply_updates(grown, updates)
    np.testing.assert_allclose(new["layer_0"]["kernel"].std(), 1.0, rtol=0.1)


def test_a_kernel_that_begins_at_zero_is_redrawn_as_zero():
    params = {"layer_0": {"kernel": jnp.zeros((4, 5))}, "layer_1": {"kernel": normal(1, 5, 2)}}
    tx = attach_reset_method(tx=optax.sgd(0.0), reset_method=CPR(**FULL))
    state = tx.init(params)
    trained = {**params, "layer_0": {"kernel": normal(0, 4, 5)}}
    updates, _ = tx.update(jax.tree.map(jnp.ones_like, trained), state, trained, reset=True)
    np.testing.assert_array_equal(optax.apply_updates(trained, updates)["layer_0"]["kernel"], 0)


def ensemble():
    """Three copies of a network; the scales of their second kernels are 1, 10 and 0.1."""
    scales = jnp.array([1.0, 10.0, 0.1])[:, None, None]
    params = {
        "a": normal(0, 3, 30, 40),
        "b": scales * normal(1, 3, 40, 50),
        "c": normal(2, 3, 50, 1),
    }

    def apply(params, x):
        h = jax.nn.relu(jnp.einsum("kbi,kij->kbj", x, params["a"]))
        h = jax.nn.relu(jnp.einsum("kbi,kij->kbj", h, params["b"]))
        return jnp.einsum("kbj,kjo->kbo", h, params["c"])

    return params, trace_units(apply, params, jnp.ones((3, 2, 30)))


def test_each_copy_of_an_ensemble_keeps_its_own_scale():
    params, graph = ensemble()
    assert graph.kernels[1].copies == (0,)
    new, state = redrawn(params, graph)
    assert state.scales.shape == (3, 3)
    np.testing.assert_allclose(new["b"].std((1, 2)), [1.0, 10.0, 0.1], rtol=0.1)
    assert not np.allclose(new["b"], params["b"])


def test_a_named_initializer_is_that_initializer():
    params = {"layer_0": {"kernel": normal(0, 4, 5)}, "layer_1": {"kernel": normal(1, 5, 2)}}
    by_name, _ = redrawn(params, reset_method=CPR(**FULL, init="lecun_normal"))
    lecun = jax.nn.initializers.lecun_normal()
    given, _ = redrawn(params, reset_method=CPR(**FULL, init=lecun))
    jax.tree.map(np.testing.assert_array_equal, by_name, given)
    assert not np.allclose(by_name["layer_0"]["kernel"], redrawn(params)[0]["layer_0"]["kernel"])


@pytest.mark.parametrize("wrong", ["lecun", 3, None])
def test_an_initializer_that_is_none(wrong):
    with pytest.raises(ValueError, match=r"CPR: init must be 'as_initialized', one of he_uniform"):
        CPR(init=wrong)


def test_lanes_of_a_vmap_have_scales_of_their_own():
    scales = jnp.array([0.1, 10.0])
    new, _ = jax.vmap(lambda scale: redrawn(dense(scale)))(scales)
    np.testing.assert_allclose(new["layer_0"]["kernel"].std((1, 2)), scales, rtol=0.1)


def test_it_works_inside_inject_hyperparams():
    params = dense(3.0)

    def make(learning_rate):
        return attach_reset_method(tx=optax.sgd(learning_rate), reset_method=CPR(**FULL, every=1))

    tx = optax.inject_hyperparams(make)(learning_rate=0.0)
    state = tx.init(params)
    grads = jax.tree.map(jnp.ones_like, params)
    for _ in range(2):
        updates, state = jax.jit(tx.update)(grads, state, params)
    new = optax.apply_updates(params, updates)
    np.testing.assert_allclose(new["layer_0"]["kernel"].std(), 3.0, rtol=0.1)


# Studies ------------------------------------------------------------------------------------------


def test_every_preset_names_its_initializer_so_that_its_checkpoints_keep_their_entries():
    """A study passes its `init` to every method, whatever the default of the methods is."""
    for name in (*registry.names(), *registry.ablations()):
        spec = registry.get(name)
        assert spec.networks.init in INITIALIZERS, name
        chosen = [method.options.get("init", "he_uniform") for method in spec.methods.values()]
        assert "as_initialized" not in chosen, name


@pytest.mark.parametrize("method", list(registry.get("permuted_mnist").methods))
def test_the_state_of_a_preset_has_one_scale_a_kernel(method):
    """Exactly what the checkpoints of studies hold, of ensembles as well."""
    params, graph = ensemble()
    spec = registry.get("permuted_mnist")
    tx = transformation(spec.methods[method], graph, init=spec.networks.init)
    state = jax.eval_shape(tx.init, params)
    assert state.scales.shape == (3,)
    assert state._fields == ("inner", "calls", "key", "scales", "method", "log")


def test_a_study_draws_what_it_always_drew():
    """The bits of a kernel drawn by name, as those of the initializer itself."""
    network = MLP((8,), 3)
    params = network.init(jax.random.key(0), jnp.ones((1, 4)))
    graph = trace_units(network.apply, params, jnp.ones((1, 4)))
    key = jax.random.key(7)
    [path] = [link.param for link in graph.layers[0].incoming]
    fresh = draw(graph, arrays(params), [path], key, "he_uniform", jnp.ones(2))
    number = [kernel.param for kernel in graph.kernels].index(path)
    he_uniform = jax.nn.initializers.he_uniform()
    expected = he_uniform(jax.random.fold_in(key, number), (4, 8), jnp.float32)
    np.testing.assert_array_equal(fresh[path], expected)
