"""A network of which three units are reset, and the states of optimizers after that."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import ReDo, attach_reset_method, recognize_units

SIZES = (4, 6, 5, 2)
DEAD = {
    "layer_0/kernel": np.isin(np.arange(6), (1, 4)),
    "layer_1/kernel": np.isin(np.arange(5), (2,)),
}
INIT = jax.nn.initializers.constant(0.5)

# Everything here compiles far longer than it runs.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def network():
    rng = np.random.default_rng(0)
    return {
        f"layer_{i}": {
            "kernel": jnp.asarray(rng.normal(size=(a, b)), jnp.float32),
            "bias": jnp.asarray(rng.normal(size=b), jnp.float32),
        }
        for i, (a, b) in enumerate(itertools.pairwise(SIZES))
    }


def gradients(seed):
    """Gradients of at least 0.1, so that no moment is zero by itself."""
    rng = np.random.default_rng(seed)

    def like(p):
        return np.float32(rng.uniform(0.1, 1, p.shape) * rng.choice([-1, 1], p.shape))

    return jax.tree.map(like, network())


FEATURES = {name: np.float32(np.where(dead, 0, 1))[None] for name, dead in DEAD.items()}


@functools.cache
def reset_entries(*, outgoing=True, bias=True):
    """A tree of masks, True where an entry belongs to a unit that is reset."""
    graph = recognize_units(network())
    masks = [graph.incoming(DEAD)]
    masks += [graph.outgoing(DEAD)] if outgoing else []
    masks += [graph.bias(DEAD)] if bias else []
    return jax.tree.map(lambda *m: np.logical_or.reduce(m), *masks)


@functools.cache
def states(tx, method=None, calls=1, grads=gradients, poison=lambda state: state):
    """The inner state after a run whose last call resets, and that of `tx` by itself.

    Both are computed in one program from the same numbers, so that they may be compared bit by bit.
    """
    method = method or ReDo(threshold=0.1, every=calls, init=INIT)
    attached = attach_reset_method(tx=tx, reset_method=method, histogram=False)
    bare = optax.with_extra_args_support(tx)

    @jit
    def both(params, grads):
        state = attached.init(params)
        # As if one call had been made: none resets in its first.
        state = state._replace(calls=jnp.ones((), jnp.int32), inner=poison(state.inner))
        for g in grads:
            _, alone = bare.update(g, state.inner, params)
            updates, state = attached.update(g, state, params, features=FEATURES)
            params = optax.apply_updates(params, updates)
        return state, alone

    state, alone = both(network(), [grads(i) for i in range(calls)])
    np.testing.assert_array_equal(state.log.resets, 1)
    return state.inner, alone


def is_masked(node):
    return isinstance(node, optax.MaskedNode)


def cleared(tx, state, entries=None):
    """`state` with every copy of the parameters zeroed where units were reset."""

    def zero(leaf, entry):
        return leaf if is_masked(leaf) else np.where(entry, np.zeros_like(leaf), leaf)

    entries = reset_entries() if entries is None else entries
    return optax.tree.map_params(tx, zero, state, entries, is_leaf=is_masked)


def assert_equal(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def dtypes(tree):
    return jax.tree.map(lambda x: x.dtype, tree)


KERNELS = jax.tree.map(lambda p: p.ndim == 2, network())
KINDS = jax.tree.map(lambda p: "kernel" if p.ndim == 2 else "bias", network())
LAYERS = {"layer_0": "first", "layer_1": "first", "layer_2": "last"}
