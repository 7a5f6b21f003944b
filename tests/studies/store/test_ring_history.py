"""A ring that is filled, cleared, saved and restored in any order, and files that go bad."""

import tempfile
import warnings
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.studies.store.store import Store
from tests.studies.store.ring_program import LANES, REPLAY, Program, check_same, flip, live
from tests.studies.toy_study import ENVIRONMENT, STUDY

_SAMPLE = jax.jit(jax.vmap(lambda state, key: REPLAY.sample(state, key, (40,)), (0, None)))


def drawn(state):
    return _SAMPLE(jax.tree.map(jnp.asarray, state["replay"]), jax.random.key(3))


count = st.integers(0, 13)
action = st.one_of(
    st.tuples(st.just("add"), count, count),
    st.tuples(st.just("clear"), st.integers(0, LANES - 1)),
    st.just(("save",)),
    st.just(("resume",)),
    st.tuples(st.just("damage"), st.sampled_from(["", ".rows"]), st.integers(0, LANES - 1)),
)


def is_read(file, state, lane):
    """Whether restoring a state reads this file of its checkpoint."""
    if not file.parent.name.endswith(".rows"):
        return True
    with np.load(file) as stored:
        _, rows = list(live(state))[lane]
        return len(stored["replay/rows/reward"]) > 0 and len(rows.reward) > 0


@hypothesis.given(st.lists(action, max_size=20))
def test_any_history(actions):
    """States that were saved come back, though files go bad; draws from them are the same."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        Store.create(folder, STUDY, ENVIRONMENT).close()
        program = Program(Path(folder))
        saved = []  # those that must be there, as (chunk, state)

        def resume():
            chunk, state = program.restore()
            assert chunk == saved[-1][0]
            check_same(state, saved[-1][1])
            if all(
                n > c for n, c in zip(state["replay"].added, state["replay"].cleared, strict=True)
            ):
                jax.tree.map(np.testing.assert_array_equal, drawn(state), drawn(saved[-1][1]))
            # What comes after is not what came after before.
            program.state, program.offset = jax.tree.map(np.copy, state), program.offset + 0.001
            program.chunk = chunk + 1

        for name, *args in [*actions, ("save",), ("resume",)]:
            if name in ("add", "clear"):
                getattr(program, name)(*args)
            elif name == "save":
                program.save()
                saved = [*saved[-1:], (program.chunk - 1, jax.tree.map(np.copy, program.state))]
            elif name == "resume" and saved:
                resume()
            elif name == "damage" and len(saved) == 2:
                kind, lane = args
                file = program.folder / f"{saved[-1][0]:06d}{kind}" / f"lane-{lane:04d}.npz"
                if file.exists() and is_read(file, saved[-1][1], lane):
                    flip(file)
                    saved.pop()
                    resume()
        program.store.close()
