"""Studies to be filmed, one of them of an ant that was trained for one chunk.

Compiling the physics is what these tests cost: once to train, once to play.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continual_learning import cli
from continual_learning.studies import build, launch, registry, spec
from continual_learning.studies.runner import Lanes
from continual_learning.studies.store.store import Store
from continual_learning.video import policy
from tests.video.ant import FRICTIONS, SMALL, STEPS


@contextlib.contextmanager
def _promotion():
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        yield


@pytest.fixture(autouse=True)
def promotion():
    with _promotion():
        yield


@pytest.fixture(scope="session")
@_promotion()
def study(tmp_path_factory):
    """Adam has finished, and CPR has not begun."""
    path = tmp_path_factory.mktemp("study") / "ant"
    words = f"run slippery_ant --methods adam,cpr {SMALL} --time-limit 0.001s --out {path}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "one_ahead", lambda make, names: map(make, names))
        assert cli.main(words.split()) == launch.REQUEUE
    return path


@pytest.fixture(scope="session")
@_promotion()
def filmed(study, tmp_path_factory):
    """(a GIF of two frictions from the command line, what was played for it)."""
    path = tmp_path_factory.mktemp("video") / "two.gif"
    words = f"render {study} --method adam --seed 1 --steps {STEPS} --size 128x96 --out {path}"
    played = []
    with pytest.MonkeyPatch.context() as patch, Store.open(study):  # locked, as by a running study
        play = policy.play
        patch.setattr(policy, "play", lambda *a, **k: played.append(play(*a, **k)) or played[0])
        flags = [word for friction in FRICTIONS for word in ("--friction", str(friction))]
        assert cli.main([*words.split(), *flags, "--renderer", "sketch"]) == 0
    return path, played[0]


@pytest.fixture
def quickly(filmed, monkeypatch):
    """Plays nothing anew; notes how it was asked to."""
    calls = []

    def play(trained, tasks, steps, stochastic):
        calls.append((trained, tasks, steps, stochastic))
        return policy.Played(*(x[: len(tasks), :steps] for x in filmed[1]))

    monkeypatch.setattr(policy, "play", play)
    return calls


@pytest.fixture(scope="session")
@_promotion()
def delayed(tmp_path_factory):
    """A study of delays with normalized observations, in its third task; it was never run."""
    path = tmp_path_factory.mktemp("study") / "delayed"
    small = registry.get("delayed_ant_blind").at_scale("smoke")
    small = small.override(normalize_observations=True, policy_hidden=(8,), value_hidden=(8,))
    trainer = build.trainer(small, "adam", None)
    state = jax.jit(jax.vmap(trainer.init, (0, None, None)))(Lanes([5]).keys(), {}, ())
    state = state._replace(
        iteration=jnp.full(1, 2 * small.value("iterations_per_task") + 1, jnp.int32),
        normalizer=jax.tree.map(lambda x: x + 3, state.normalizer),
    )
    plain = {"experiment": spec.to_dict(small), "methods": ["adam"], "seeds": [5]}
    with Store.create(path, plain, {}) as store:
        store.write_part("adam", 0, {name: np.zeros(1, int) for name in ("seed", "step", "task")})
        store.save("adam", 0, state)
    return path
