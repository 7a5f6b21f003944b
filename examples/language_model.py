"""A small language model loses plasticity over changing corpora, and CPR keeps most of it.

The corpus is the documentation that comes with Python. Every task writes it in another alphabet:
the characters are permuted. The tasks are equally hard, so a model that keeps its plasticity does
as well on the last one as on the first. The model is a block of a transformer. Nothing tells the
optimizer when a task begins; both methods have the same learning rate, initial weights, alphabets
and batches. Units are the channels of the MLP, of the values, and of queries with their keys.

    python examples/language_model.py --out language_model

It needs the extras `flax` and `figures`, and some minutes on two cores.
"""

import argparse
import collections
import csv
import pydoc_data.topics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import CPR, NoReset, ResetMethod, attach_reset_method, trace_units

CHARACTERS, WIDTH, LENGTH, BATCH = 64, 32, 16, 16
METHODS: dict[str, ResetMethod] = {"Adam": NoReset(), "CPR": CPR(max_reset=0.02, every=50)}
Losses = dict[str, np.ndarray]  # {method: [seeds, tasks]}


class LanguageModel(nn.Module):
    """One block: causal attention of four heads and an MLP."""

    @nn.compact
    def __call__(self, tokens):
        """Tokens [batch, length] to logits [batch, length, characters]."""
        place = self.param("place", nn.initializers.normal(0.02), (LENGTH, WIDTH))
        x = nn.Embed(CHARACTERS, WIDTH)(tokens) + place[None]
        mask = nn.make_causal_mask(tokens)
        x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), mask=mask)
        x = x + nn.Dense(WIDTH)(nn.relu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))))
        return nn.Dense(CHARACTERS)(nn.LayerNorm()(x))


def corpus() -> jax.Array:
    """Return the text as numbers of characters, the rarest of which share one."""
    text = "\n".join(pydoc_data.topics.topics.values())
    common = collections.Counter(text).most_common(CHARACTERS - 1)
    number = {character: i for i, (character, _) in enumerate(common)}
    return jnp.asarray([number.get(character, CHARACTERS - 1) for character in text], jnp.int8)


def train(method: ResetMethod, seeds: int, tasks: int, steps: int) -> np.ndarray:
    """Return the mean loss over the last fifth of every task, [seeds, tasks]."""
    text, model = corpus(), LanguageModel()
    example = jnp.zeros((1, LENGTH), jnp.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), example)
    graph = trace_units(model.apply, shapes, example, pairs=True)
    tx = attach_reset_method(tx=optax.adam(5e-3), reset_method=method, units=graph)

    def loss(params: Any, text: jax.Array) -> jax.Array:
        logits = model.apply(params, text[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:]).mean()

    def task(carry: Any, key: jax.Array) -> Any:
        alphabet = jax.random.permutation(key, CHARACTERS)

        def step(carry: Any, key: jax.Array) -> Any:
            params, state = carry
            start = jax.random.randint(key, (BATCH, 1), 0, len(text) - LENGTH)
            read = text[start + jnp.arange(LENGTH + 1)[None]].astype(jnp.int32)
            value, grads = jax.value_and_grad(loss)(params, alphabet[read])
            updates, state = tx.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), value

        carry, losses = jax.lax.scan(step, carry, jax.random.split(key, steps))
        return carry, losses[-max(steps // 5, 1) :].mean()

    def run(seed: jax.Array) -> jax.Array:
        start, stream = jax.random.split(jax.random.key(seed))
        params = model.init(start, example)
        return jax.lax.scan(task, (params, tx.init(params)), jax.random.split(stream, tasks))[1]

    return np.asarray(jax.jit(jax.vmap(run))(jnp.arange(seeds)))


def figure(losses: Losses) -> Any:
    """Every seed (thin) and the mean of the seeds (thick), over the tasks."""
    rows = [
        {"method": method, "seed": seed, "task": task + 1, "loss": float(value)}
        for method, runs in losses.items()
        for seed, run in enumerate(runs)
        for task, value in enumerate(run)
    ]
    base = alt.Chart(alt.Data(values=rows), width=520, height=300).encode(
        x=alt.X("task:Q", title="task: another alphabet"), color=alt.Color("method:N", title=None)
    )
    axis = alt.Scale(zero=False)
    seeds = base.mark_line(strokeWidth=0.8, opacity=0.3).encode(
        y=alt.Y("loss:Q", scale=axis, title="nats per character at the end of the task"),
        detail="seed:N",
    )
    return seeds + base.mark_line(strokeWidth=3).encode(y=alt.Y("mean(loss):Q", scale=axis))


def main(argv: Sequence[str] | None = None) -> Losses:
    """Trains with every method, prints the first and last losses, writes numbers and picture."""
    parser = argparse.ArgumentParser(description="A language model on changing corpora.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=120)
    parser.add_argument("--steps", type=int, default=200, help="per task")
    parser.add_argument("--out", type=Path, default=Path("language_model"), help="a folder")
    args = parser.parse_args(argv)

    losses = {name: train(m, args.seeds, args.tasks, args.steps) for name, m in METHODS.items()}
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "losses.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "seed", "task", "loss"])
        for name, runs in losses.items():
            for (seed, task), value in np.ndenumerate(runs):
                writer.writerow([name, seed, task, f"{value:.4f}"])
    figure(losses).save(args.out / "losses.svg")
    ends = max(args.tasks // 6, 1)
    for name, runs in losses.items():
        first, last = runs[:, :ends].mean(), runs[:, -ends:].mean()
        print(f"{name}: {first:.3f} over the first {ends} tasks, {last:.3f} over the last {ends}")
    return losses


if __name__ == "__main__":
    main()
