"""A small policy for each game, trained by SAC on ours, to play the official ones with.

python -m tests.envs.minatar.trained [GAME …]

trains them, or some of them anew, in minutes each on a CPU, and writes
tests/golden/minatar_policies.npz: "GAME.LAYER" of `LAYERS`, float16, which read the channels of the
game alone. It prints the returns of training and of the likeliest actions.
"""

import functools
import sys
from pathlib import Path

import jax
import numpy as np
import optax

from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.sac.train import sac
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.minatar import GAMES, MinAtar
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import MLP
from continual_learning.optim import NoReset, attach_reset_method

PATH = Path(__file__).parents[2] / "golden" / "minatar_policies.npz"
LAYERS = ("kernel_0", "bias_0", "kernel_1", "bias_1")
HIDDEN = 12
STEPS, CHUNKS = 20_000, 10
ALPHA = {"seaquest": 0.01}  # with 0.2, as in other games, it learns to live long and do nothing


@functools.cache
def policies():
    """All policies, {"GAME.kernel_0": …}."""
    with np.load(PATH) as arrays:
        return {name: np.asarray(arrays[name], np.float32) for name in arrays}


def act(name, board, rng):
    """An action drawn from the policy on a board, bool [10, 10, channels]."""
    layer = {key: policies()[f"{name}.{key}"] for key in LAYERS}
    hidden = np.maximum(board.reshape(-1) @ layer["kernel_0"] + layer["bias_0"], 0)
    logits = hidden @ layer["kernel_1"] + layer["bias_1"]
    return int(np.argmax(logits + rng.gumbel(size=logits.shape)))


def train(name):
    """The layers of a policy, {"kernel_0": …}."""
    env = MinAtar((name,))

    def optimizer(units, hyper):
        return attach_reset_method(tx=optax.adam(1e-3), reset_method=NoReset(), units=units)

    program = sac(
        MLP((HIDDEN,), env.actions, "relu", "he_uniform"),
        MLP((128,), env.actions, "relu", "he_uniform"),
        OnDevice(TaskStream(env, {}, (name,)), 1000, "fresh"),
        {"policy": optimizer, "critic": optimizer},
        SACConfig(
            environments=32,
            vector_steps_per_task=STEPS,
            steps_per_row=STEPS // CHUNKS,
            rows_per_chunk=1,
            capacity=100_000,
            batch=128,
            replay_ratio=1,
            initial_alpha=ALPHA.get(name, 0.2),
            target_entropy=0.3,
            eval_every=STEPS // CHUNKS,
            diagnostics=False,
        ),
        tasks=1,
    )
    state = jax.jit(program.init)(jax.random.key(0), {}, ())
    chunk = jax.jit(program.chunk, donate_argnums=0)
    for _ in range(program.chunks):
        state, rows = chunk(state, {}, ())
        paid = {name: round(float(rows[name][-1]), 2) for name in ("episode_return", "eval_seen")}
        print(name, int(rows["step"][-1]), paid, flush=True)
    first, last = (state.learner.params["policy"]["params"][n] for n in ("hidden_0", "output"))
    # Without the channels that are always empty.
    board = np.asarray(first["kernel"]).reshape(*env.observation_shape, -1)
    kernel = board[:, :, : len(GAMES[name].CHANNELS)].reshape(-1, board.shape[-1])
    return dict(zip(LAYERS, (kernel, first["bias"], last["kernel"], last["bias"]), strict=True))


if __name__ == "__main__":
    for name in sys.argv[1:] or GAMES:
        layers = {f"{name}.{key}": value for key, value in train(name).items()}
        arrays = {**(policies() if PATH.exists() else {}), **layers}
        np.savez_compressed(PATH, **{key: np.asarray(x, np.float16) for key, x in arrays.items()})
        policies.cache_clear()
