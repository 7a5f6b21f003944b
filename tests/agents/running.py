"""Programs of trainers, run and compared."""

import jax
import jax.numpy as jnp
import numpy as np


def through_numpy(state):
    """As a checkpoint does it."""

    def copy(x):
        if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jnp.asarray(np.array(x))
        return jax.random.wrap_key_data(jnp.asarray(np.array(jax.random.key_data(x))))

    return jax.tree.map(copy, state)


def equal(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


def shapes(program, hyper):
    state = jax.eval_shape(program.init, jax.random.key(0), hyper, ())
    return jax.eval_shape(program.chunk, state, hyper, ())


class Run:
    """All chunks of some lanes: `states` before each and after the last, `rows` of each."""

    def __init__(self, trainer, lanes):
        self.trainer = trainer
        keys = jax.vmap(jax.random.key)(jnp.arange(lanes))
        state = jax.jit(jax.vmap(self.trainer.init, (0, 0, None)))(keys, {}, ())
        self.chunk = jax.jit(jax.vmap(self.trainer.chunk, (0, 0, None)), donate_argnums=0)
        self.states, self.rows = [through_numpy(state)], []
        for _ in range(self.trainer.chunks):
            state, rows = self.chunk(state, {}, ())
            self.states.append(through_numpy(state))
            self.rows.append(rows)
        self.programs = self.chunk._cache_size()

    def column(self, name, lane=0):
        return np.concatenate([rows[name][lane] for rows in self.rows])
