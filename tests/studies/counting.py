"""Training programs whose every number is known, and a store in memory."""

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.common.trainer import Trainer
from continual_learning.agents.sac.replay import Experience, Replay
from continual_learning.studies.runner import Lanes, run_method
from continual_learning.studies.store.store import Store


def counter(chunks=4, rows=2, traces=None):
    """State: (key, sum). A chunk adds rows · (seed's draw) to the sum."""

    def init(key, hyper, data):
        return {"key": key, "sum": hyper.get("start", jnp.zeros(())) + 0.0, "done": jnp.int32(0)}

    def chunk(state, hyper, data):
        if traces is not None:
            traces.append(1)
        draws = jax.random.normal(jax.random.fold_in(state["key"], state["done"]), (rows,))
        sums = state["sum"] + jnp.cumsum(draws * data)
        out = {
            "step": state["done"] * rows + jnp.arange(rows) + 1,
            "task": jnp.full((rows,), state["done"]),
            "value": sums,
        }
        return {"key": state["key"], "sum": sums[-1], "done": state["done"] + 1}, out

    return Trainer(init, chunk, chunks, jnp.float32(2.0), "value")


def collector(chunks=6, rows=2):
    """A ring of 7 rows, 4 more with every chunk, which clears it once; draws from it are summed."""
    replay = Replay(7, 1)

    def init(key, hyper, data):
        start = replay.start(jax.ShapeDtypeStruct((), jnp.float32))
        return {"key": key, "replay": start, "done": jnp.int32(0)}

    def chunk(state, hyper, data):
        key = jax.random.fold_in(state["key"], state["done"])
        x = jax.random.normal(key, (4,))
        ring = replay.clear(state["replay"], state["done"] == 3)
        ring = replay.add(ring, Experience(x[:, None], x, x, x > 0, x[:, None]))
        out = {
            "step": state["done"] * rows + jnp.arange(rows) + 1,
            "task": jnp.full((rows,), state["done"]),
            "value": jnp.sum(replay.sample(ring, key, (rows, 5)).reward, axis=1),
        }
        return {"key": state["key"], "replay": ring, "done": state["done"] + 1}, out

    return Trainer(init, chunk, chunks, (), "value", ring="replay")


def collected(folder, seeds, stop=lambda chunks: False):
    """The values of a `collector` whose every state is kept in a folder; one that stops goes on."""
    with Store.create(folder, {}, {}):
        chunks = []
    for stopped in (lambda: stop(len(chunks)), lambda: False):
        with Store.open(folder) as store:
            run_method(
                "m",
                collector(),
                Lanes(seeds),
                store,
                stop=stopped,
                report=chunks.append,
                checkpoint_seconds=0.0,
            )
            values = [store.read_part("m", number)["value"] for number in range(len(chunks))]
    return np.concatenate(values).tolist()


class Memory:
    """What a store does, without a disk."""

    def __init__(self):
        self.parts, self.states = {}, {}

    def write_part(self, method, chunk, columns):
        self.parts[method, chunk] = {k: np.asarray(v) for k, v in columns.items()}

    def save(self, method, chunk, state, lanes, ring):
        def plain(x):
            typed = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
            return np.asarray(jax.random.key_data(x) if typed else x)[:lanes]

        self.states[method] = chunk, jax.tree.map(plain, state)

    def restore(self, method, like):
        if method not in self.states:
            return None
        chunk, state = self.states[method]
        return chunk, {**state, "key": jax.random.wrap_key_data(jnp.asarray(state["key"]))}

    def column(self, method, name):
        chunks = sorted(chunk for m, chunk in self.parts if m == method)
        return np.concatenate([self.parts[method, chunk][name] for chunk in chunks])
