"""A small network, a stream of gradients and features, and every method on them."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import (
    CBP,
    CPR,
    DASH,
    FIRE,
    SNR,
    TRAC,
    UPGD,
    FullReset,
    L2Init,
    LayerReset,
    NaP,
    NoReset,
    Parseval,
    ReDo,
    ReGraMa,
    ShrinkAndPerturb,
    SpectralRegularization,
    WeightClipping,
    attach_reset_method,
)

SIZES = (4, 6, 5, 2)
STEPS = 5
UNITS = ("layer_0/kernel", "layer_1/kernel")
HEAD = "layer_2"

# Everything here compiles far longer than it runs.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def fresh(key, shape, dtype):
    """Depends on the key as any initializer does, and compiles in no time."""
    offset = (jax.random.key_data(key)[-1] % jnp.uint32(101)).astype(jnp.float32)
    place = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    return ((7 * place + offset) % 11 / 11 - 0.5).astype(dtype)


METHODS = {
    "CPR": CPR(max_reset=0.3, decay=0.5, every=2, init=fresh),
    "CBP": CBP(replacement_rate=0.3, maturity=1, decay=0.5, init=fresh),
    "ReDo": ReDo(threshold=0.1, every=2, init=fresh),
    "ReGraMa": ReGraMa(threshold=0.1, every=2, init=fresh),
    "ShrinkAndPerturb": ShrinkAndPerturb(shrink=0.1, perturb=0.05, every=2, init=fresh),
    "SNR": SNR(threshold=2, threshold_reset_freq=2, tau_max=3, init=fresh),
    "UPGD": UPGD(sigma=0.1, step_size=0.05),
    "TRAC": TRAC(s_prev=0.1),
    "LayerReset": LayerReset(every=2, layers=2, init=fresh),
    "FullReset": FullReset(every=2, init=fresh),
    "FIRE": FIRE(every=2, iterations=3, init=fresh),
    "DASH": DASH(every=2, steps=2, init=fresh),
    "NoReset": NoReset(),
    "L2Init": L2Init(strength=0.5),
    "WeightClipping": WeightClipping(kappa=0.5),
    "NaP": NaP(),
    "Parseval": Parseval(strength=0.01),
    "SpectralRegularization": SpectralRegularization(strength=0.01),
}
WRAPPERS = [name for name in METHODS if not METHODS[name].resets and name != "NoReset"]
"""Methods that change every step and never reset."""
every_method = pytest.mark.parametrize("name", METHODS)
resetting_method = pytest.mark.parametrize("name", [n for n in METHODS if n not in WRAPPERS])
unit_method = pytest.mark.parametrize("name", ["CPR", "CBP", "ReDo", "ReGraMa", "SNR"])
COPIES = {"DASH": 1, "L2Init": 1, "UPGD": 1, "TRAC": 2}
"""Copies of the parameters in the states of methods that wrap the optimizer."""
stateful_method = pytest.mark.parametrize("name", ["CPR", "CBP", "SNR"])


def inner():
    return optax.sgd(0.05, momentum=0.9)


def attach(name, tx=None):
    return attach_reset_method(tx=tx or inner(), reset_method=METHODS[name])


def network(seed=0, dtype=jnp.float32, sizes=SIZES):
    rng = np.random.default_rng(seed)
    return {
        f"layer_{i}": {
            "kernel": jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), dtype),
            "bias": jnp.asarray(rng.normal(size=b), dtype),
        }
        for i, (a, b) in enumerate(itertools.pairwise(sizes))
    }


def stream(params, seed=0, steps=STEPS, units=UNITS):
    """Gradients and features [steps, …]; unit `seed` of each hidden layer has hardly any."""
    rng = np.random.default_rng(100 + seed)
    grads = jax.tree.map(lambda p: rng.normal(size=(steps, *p.shape)), params)
    features = {}
    for i, name in enumerate(units):
        layer = grads[f"layer_{i}"]["kernel"]
        features[name] = np.abs(rng.normal(size=(steps, 3, layer.shape[-1])))
        layer[..., seed] *= 1e-3
        features[name][..., seed] = 0
    dtype = jax.tree.leaves(params)[0].dtype
    return jax.tree.map(lambda x: x.astype(dtype), (grads, features))


def rollout(tx, params, data):
    """Parameters and state after all steps; `data` is (gradients, features), [steps, …] each."""

    def step(carry, now):
        params, state = carry
        grads, features = now
        updates, state = tx.update(grads, state, params, features=features)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, tx.init(params)), data)[0]


def run(tx, params, data):
    return jit(functools.partial(rollout, tx))(params, data)


@functools.cache
def compiled(name):
    return jit(functools.partial(rollout, attach(name)))


@functools.cache
def plain(name):
    """What the method does to the network of seed 0 with nothing wrapped around it."""
    params = network()
    params, state = compiled(name)(params, stream(params))
    assert_resets(name, state)
    return params, state


@functools.cache
def bare():
    """The same without a method."""
    params = network()
    return run(inner(), params, stream(params))


def assert_resets(name, state):
    if not METHODS[name].resets:
        np.testing.assert_array_equal(state.log.numbers, 0)
    else:
        assert (state.log.resets >= 1).all()
        assert (state.log.total[-1 if name == "LayerReset" else 0 :] > 0).all()


def assert_close(actual, expected, rtol=1e-5, atol=1e-6):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    compare = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol)
    jax.tree.map(compare, actual, expected)


def assert_equal(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def types(tree):
    return jax.tree.map(jax.typeof, tree)


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), tree)


def history(tx, params, grads):
    """Parameters after every step, [steps, …]; `grads` are [steps, …]."""

    def step(carry, grads):
        params, state = carry
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    return jax.lax.scan(step, (params, tx.init(params)), grads)[1]


def torch_tree(arrays, names, pattern="{}"):
    """{"hidden": {"weight", "bias"}} of arrays that PyTorch names hidden.weight, hidden.bias."""
    tree = {}
    for name in names:
        layer, leaf = name.split(".")
        tree.setdefault(layer, {})[leaf] = jnp.asarray(arrays[pattern.format(name)])
    return tree


def torch_steps(arrays, names, pattern, steps=4):
    """The same for arrays of several steps, [steps, …]; `pattern` is formatted with t first."""
    trees = [torch_tree(arrays, names, pattern.format(t, "{}")) for t in range(steps)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
