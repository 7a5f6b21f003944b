import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning import optim
from continual_learning.networks.catalog import MLPs
from continual_learning.networks.mlp import ACTIVATIONS
from continual_learning.optim import CPR, NoReset, trace_units
from continual_learning.optim.fresh import INITIALIZERS
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import fields_of
from continual_learning.studies import methods, registry
from continual_learning.studies.experiment import MethodSpec

PRESETS = registry.get("permuted_mnist").methods


def apply(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b[None])
    return x @ params[-1][0] + params[-1][1][None]


def network(key=0):
    keys = jax.random.split(jax.random.key(key), 3)
    draw = jax.nn.initializers.he_uniform()
    shapes = [(6, 8), (8, 8), (8, 3)]
    return [(draw(k, s), jnp.zeros(s[1:])) for k, s in zip(keys, shapes, strict=True)]


def data():
    return jax.random.normal(jax.random.key(7), (16, 6)), jnp.arange(16) % 3


def loss(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(apply(params, x), y).mean()


def train(tx, steps=3):
    params, (x, y) = network(), data()
    graph = trace_units(apply, params, x)
    features = jax.jit(graph.with_features(apply))
    state: Any = tx.init(params)
    update = jax.jit(tx.update)
    for _ in range(steps):
        grads = jax.grad(loss)(params, x, y)
        _, shown, _ = features(params, x)
        updates, state = update(grads, state, params, features=shown)
        params = optax.apply_updates(params, updates)
    return params, state


def units():
    return trace_units(apply, network(), data()[0])


def close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7), a, b)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_trains_with_one_kind_of_state(name):
    params, state = train(methods.transformation(PRESETS[name], units(), init="he_uniform"))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
    assert loss(params, *data()) < loss(network(), *data())
    assert int(state.calls) == 3
    assert state.log.resets.shape == (2,)


@pytest.mark.parametrize(
    ("name", "base"),
    [("adam", optax.adam), ("adamw", optax.adamw), ("muon", optax.contrib.muon)],
)
def test_without_resets_it_is_the_clipped_optimizer(name, base):
    ours, _ = train(methods.transformation(PRESETS[name], units(), init="he_uniform"))
    plain = optax.chain(optax.clip_by_global_norm(0.5), base(1e-3))
    theirs, _ = train(optax.with_extra_args_support(plain))
    close(ours, theirs)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("adam", optax.adam(1e-3, eps_root=0.01)),
        ("adamw", optax.adamw(1e-3, eps_root=0.01)),
        ("muon", optax.contrib.muon(1e-3, adam_eps_root=0.01)),
    ],
)
def test_eps_root_reaches_adam_and_muons_adam(name, base):
    method = MethodSpec(optimizer=name, eps_root=0.01)
    ours, _ = train(methods.transformation(method, units(), init="he_uniform"))
    close(ours, train(optax.with_extra_args_support(base))[0])
    with pytest.raises(StudyError, match="eps_root must be a number above 0, or none; got -1"):
        MethodSpec(eps_root=-1)


def test_no_clip():
    ours, _ = train(methods.transformation(MethodSpec(), units(), init="he_uniform"))
    close(ours, train(optax.with_extra_args_support(optax.adam(1e-3)))[0])


def test_scores_come_from_the_gradients_before_the_clip():
    """A clip that takes all of the gradient away leaves CPR's utilities as they are."""
    states = []
    for clip in (None, 1e-30):
        method = MethodSpec(clip=clip, reset="cpr", options={"every": 100})
        _, state = train(methods.transformation(method, units(), init="he_uniform"), steps=1)
        states.append(state.method.utility)
    close(*states)
    assert np.ptp(states[0]) > 0


def test_options_reach_the_method():
    method = methods.reset_method("cpr", {"max_reset": 0.02}, init="he_uniform", key=3)
    assert isinstance(method, CPR)
    assert (method.max_reset, method.every, method.key) == (0.02, 1000, 3)
    assert isinstance(methods.reset_method(None, {}, init="he_uniform"), NoReset)


def test_fresh_weights_come_from_the_networks_initializer_unless_told_otherwise():
    def init(options):
        return methods.reset_method("cpr", options, init="he_uniform").init

    assert init({}) == "he_uniform"
    assert init({"init": "lecun_normal"}) == "lecun_normal"
    assert init({"init": "as_initialized"}) == "as_initialized"


def test_every_initializer_of_a_spec_exists():
    assert list(fields_of(MLPs)["init"].choices) == list(INITIALIZERS)
    assert list(fields_of(MLPs)["activation"].choices) == list(ACTIVATIONS)
    with pytest.raises(StudyError, match=r"init must be .*got 'he_unifrm'"):
        methods.check_options("cpr", {"init": "he_unifrm"})


def test_every_reset_method_is_named_in_the_help():
    assert all(name in fields_of(MethodSpec)["reset"].help for name in optim.registered())


def test_numbers_may_be_traced():
    """A sweep over numbers of the optimizer and an option is a `vmap`, equal to single runs."""
    method = dataclasses.replace(PRESETS["cpr"], options={"every": 1})
    graph = units()
    hyper = {
        "learning_rate": jnp.array([1e-3, 1e-2]),
        "clip": jnp.array([0.1, 10.0]),
        "eps_root": jnp.array([1e-8, 1e-2]),
        "max_reset": jnp.array([0.0, 0.5]),
    }

    def final(hyper):
        tx = methods.transformation(method, graph, init="he_uniform", hyper=hyper)
        params, (x, y) = network(), data()
        state = tx.init(params)
        for _ in range(3):
            updates, state = tx.update(jax.grad(loss)(params, x, y), state, params)
            params = optax.apply_updates(params, updates)
        return params

    swept = jax.jit(jax.vmap(final))(hyper)
    for i in range(2):
        one = method.override(**{name: float(values[i]) for name, values in hyper.items()})
        alone, _ = train(methods.transformation(one, graph, init="he_uniform"))
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-5),
            swept,
            alone,
        )


def test_an_integer_that_is_fixed_when_a_program_is_traced():
    methods.check_options("snr", {"tau_max": 5})
    with pytest.raises(StudyError, match="tau_max of snr must be an integer"):
        methods.check_options("snr", {"tau_max": 5.5})


def test_unknown_numbers():
    with pytest.raises(StudyError, match=r"option of cpr 'max_rest'\. Did you mean"):
        methods.transformation(PRESETS["cpr"], units(), init="he_uniform", hyper={"max_rest": 1})
    with pytest.raises(StudyError, match="a method without resets"):
        methods.transformation(PRESETS["adam"], units(), init="he_uniform", hyper={"every": 1})


def test_an_option_without_a_default_is_needed(monkeypatch):
    @optim.reset_method
    class Picky(CPR):
        least: float = dataclasses.field(kw_only=True)

    monkeypatch.setattr(optim.registry, "_ENTRIES", dict(optim.registered()))
    optim.register("picky", Picky)
    with pytest.raises(StudyError, match="picky needs the options least"):
        methods.check_options("picky", {})
    methods.check_options("picky", {"least": 0.1})


@pytest.mark.parametrize("name", optim.registered())
def test_every_reset_method_has_defaults(name):
    methods.check_options(name, {})
    assert optim.registry.get(name)() == methods.reset_method(name, {}, init="as_initialized")
