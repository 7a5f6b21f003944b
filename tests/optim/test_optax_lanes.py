"""Many at once: vmap over seeds and numbers, several devices; and it still optimizes."""

import dataclasses
import functools
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import CPR, ReGraMa, attach_reset_method
from tests.optim.rollouts import (
    HEAD,
    METHODS,
    assert_close,
    assert_resets,
    compiled,
    every_method,
    fresh,
    inner,
    jit,
    network,
    rollout,
    stream,
)

OTHER = {
    "CPR": {"max_reset": 0.1, "sharpness": 1.0, "decay": 0.9, "every": 3},
    "CBP": {"replacement_rate": 0.2, "decay": 0.9, "maturity": 3},
    "ReDo": {"threshold": 0.9, "every": 1},
    "ReGraMa": {"threshold": 1.0, "every": 1},
    "ShrinkAndPerturb": {"shrink": 0.5, "perturb": 0.1, "every": 1},
    "LayerReset": {"every": 1, "layers": 3},
    "FullReset": {"every": 3},
    "FIRE": {"every": 1, "iterations": 5},
    "DASH": {"every": 3, "alpha": 0.5, "lam": 0.1, "steps": 1},
    "SNR": {"threshold": 4, "threshold_reset_freq": 9},
    "UPGD": {"sigma": 0.5, "beta_utility": 0.5, "gain": 1.0},
    "TRAC": {"s_prev": 0.01},
    "NoReset": {},
    "L2Init": {"strength": 0.1},
    "WeightClipping": {"kappa": 0.25},
    "NaP": {},
    "Parseval": {"strength": 0.02, "scale": 0.5},
    "SpectralRegularization": {"strength": 0.05, "exponent": 1.0},
}


def with_numbers(name, numbers, params, data):
    method = dataclasses.replace(METHODS[name], **numbers)
    return rollout(attach_reset_method(tx=inner(), reset_method=method), params, data)


@functools.cache
def lanes(name):
    """Lanes 0, 1, 2 are seeds with the usual numbers, lane 3 is seed 0 with `OTHER` numbers."""
    params = [network(seed) for seed in (0, 1, 2, 0)]
    data = [stream(p, seed) for p, seed in zip(params, (0, 1, 2, 0), strict=True)]
    numbers = {k: np.array([*[getattr(METHODS[name], k)] * 3, v]) for k, v in OTHER[name].items()}
    stacked = jax.tree.map(lambda *x: np.stack(x), *zip(params, data, strict=True))
    together = jit(jax.vmap(functools.partial(with_numbers, name)))(numbers, *stacked)
    return params, data, [jax.tree.map(lambda x, i=i: x[i], together) for i in range(4)]


@every_method
def test_vmap_over_seeds_equals_a_loop(name):
    params, data, together = lanes(name)
    for seed in range(3):
        assert_close(together[seed], compiled(name)(params[seed], data[seed]))
        assert_resets(name, together[seed][1])
    assert len({tuple(np.asarray(state.key)) for _, state in together[:3]}) == 3


# TRAC stays at the initial weights when gradients are mere noise; see tests/optim/test_trac.py.
@pytest.mark.parametrize("name", [name for name in OTHER if OTHER[name] and name != "TRAC"])
def test_vmap_over_hyperparameters_equals_constants(name):
    params, data, together = lanes(name)
    constant = jit(functools.partial(with_numbers, name, OTHER[name]))(params[3], data[3])
    assert_close(together[3], constant)
    assert not np.allclose(together[3][0]["layer_0"]["kernel"], together[0][0]["layer_0"]["kernel"])


def test_vmap_over_the_limit_of_a_layer_counts_units():
    params = network()
    grads, _ = stream(params)

    def replaced(fraction):
        method = ReGraMa(threshold=9.0, every=1, max_reset_fraction=fraction, init=fresh)
        return rollout(attach_reset_method(tx=inner(), reset_method=method), params, (grads, {}))

    _, state = jit(jax.vmap(replaced))(np.array([0.0, 0.2, 0.5, 1.0]))
    np.testing.assert_array_equal(state.log.amount, [[0, 0], [1, 1], [3, 2], [6, 5]])


SHARDED = """
    import jax, jax.numpy as jnp, numpy as np, optax, traceback
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from continual_learning.optim import CBP, attach_reset_method

    rng = np.random.default_rng(0)
    params = {
        f"layer_{i}": {"kernel": rng.normal(size=(a, b)), "bias": rng.normal(size=b)}
        for i, (a, b) in enumerate([(3, 8), (8, 4), (4, 2)])
    }
    features = {f"layer_{i}/kernel": rng.normal(size=(4, n)) for i, n in enumerate((8, 4))}
    params, features = jax.tree.map(jnp.float32, (params, features))
    split = {
        "layer_0": {"kernel": P(None, "d"), "bias": P("d")},
        "layer_1": {"kernel": P("d", None), "bias": P()},
        "layer_2": {"kernel": P(), "bias": P()},
    }
    method = CBP(replacement_rate=0.4, maturity=0, init=jax.nn.initializers.constant(0.5))
    tx = attach_reset_method(tx=optax.sgd(0.1, momentum=0.9), reset_method=method)

    @jax.jit
    def train(params, state, features):
        def step(carry, _):
            params, state = carry
            grads = jax.tree.map(jnp.sin, params)
            updates, state = tx.update(grads, state, params, features=features)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, state), length=3)[0]

    one = train(params, tx.init(params), features)

    def check(axis_type, specs, batch):
        mesh = jax.make_mesh((4,), ("d",), axis_types=(axis_type,))
        shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), specs)
        sharded = jax.device_put(params, shardings)
        given = jax.device_put(features, NamedSharding(mesh, batch))
        many = train(sharded, tx.init(sharded), given)
        assert (many[1].log.resets >= 1).all()
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        jax.tree.map(close, many, one)
        for tree in (many[0], many[1].inner[0].trace):
            for layer, leaf in (("layer_0", "kernel"), ("layer_0", "bias"), ("layer_1", "kernel")):
                x, expected = tree[layer][leaf], shardings[layer][leaf]
                assert x.sharding.is_equivalent_to(expected, x.ndim), (x.sharding, expected)

    assert jax.device_count() == 4
    whole = jax.tree.map(lambda _: P(), split)
    for case in (
        (AxisType.Auto, split, P()),
        (AxisType.Explicit, whole, P("d")),
        (AxisType.Explicit, split, P()),
    ):
        try:
            check(*case)
            print("same numbers")
        except Exception as error:
            print(repr(error).replace(chr(10), " "))
"""


@functools.cache
def on_four_devices():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{flags} --xla_backend_optimization_level=0",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_sharded_parameters_give_the_same_numbers_and_keep_their_shardings():
    assert on_four_devices()[0] == "same numbers"


def test_a_sharded_batch_of_features_with_shardings_in_types():
    assert on_four_devices()[1] == "same numbers"


def test_sharded_parameters_with_shardings_in_types():
    assert on_four_devices()[2] == "same numbers"


def test_a_mild_cpr_still_converges():
    x = jax.random.normal(jax.random.key(0), (32, 4))
    y = jnp.sin(x[:, :2]) + 0.5 * x[:, 2:]

    def loss(params):
        hidden = x
        for i in range(2):
            layer = params[f"layer_{i}"]
            hidden = jnp.tanh(hidden @ layer["kernel"] + layer["bias"][None])
        head = params[HEAD]
        return jnp.mean((hidden @ head["kernel"] + head["bias"][None] - y) ** 2)

    @jit
    def train(params):
        tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=CPR(max_reset=0.005, every=50))

        def step(carry, _):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = tx.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), value

        return jax.lax.scan(step, (params, tx.init(params)), length=1500)

    (_, state), losses = train(network(sizes=(4, 16, 16, 2)))
    np.testing.assert_array_equal(state.log.resets, 29)
    assert losses[0] > 1
    assert losses[-1] < 0.02
