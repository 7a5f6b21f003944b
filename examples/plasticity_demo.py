"""Adam loses plasticity and CPR keeps it, in about a minute on two CPU cores.

The problem: 200 real 8×8 images of digits, and a sequence of 60 tasks. Each task gives every image
a new random label, which the network has 350 steps to memorise. The tasks are equally hard, so a
network that keeps its plasticity does as well on the last one as on the first. Nothing tells the
optimizer when a task begins.

What is compared: Adam, and the same Adam with CPR attached, with the same network (three hidden
layers of 100 ReLU units), learning rate, initial weights, labels and batches. CPR's reset size and
period were chosen by a small search on this problem and these seeds, and its biases go with their
unit: left alone, which is the default, they brought a decline after 80 tasks or so (two seeds, 150
tasks). CPR pays for its resets at first, when the network is still fresh. A smaller learning rate
let Adam decline less, but learn less of each task (3e-4, two seeds).

What is shown, after each task, for every seed (thin) and their mean (thick):
  left: the share of the 200 labels that the network recalls (guessing gives 10 %);
  right: the share of hidden units that are dormant, that is, whose mean activation over the images
    is below a tenth of their layer's average.

Run it with `make demo` or `python examples/plasticity_demo.py`; it needs the `demo` extra.
"""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import altair as alt
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

from continual_learning.optim import CPR, attach_reset_method

IMAGES, CLASSES = 200, 10
LAYERS = (64, 100, 100, 100, CLASSES)
STEPS_PER_TASK, BATCH_SIZE, LEARNING_RATE = 350, 32, 1e-3
DORMANT_BELOW = 0.1

OPTIMIZERS = {
    "Adam": optax.adam(LEARNING_RATE),
    "Adam + CPR": attach_reset_method(
        ("tx", optax.adam(LEARNING_RATE)),
        ("reset_method", CPR(max_reset=0.1, every=100, reset_bias=True)),
    ),
}
# Vermilion and blue stay apart for every kind of colour vision.
COLORS = {"Adam": "#D55E00", "Adam + CPR": "#0072B2"}


class Curves(NamedTuple):
    """Measured at the end of each task; [seeds, tasks]."""

    accuracy: jax.Array
    dormant: jax.Array


def init_network(key):
    """The usual parameter tree of a dense network, {layer: {kernel: [in, out], bias: [out]}}."""
    draw = jax.nn.initializers.lecun_normal()
    keys = jax.random.split(key, len(LAYERS) - 1)
    return {
        f"layer_{i}": {"kernel": draw(keys[i], LAYERS[i : i + 2]), "bias": jnp.zeros(LAYERS[i + 1])}
        for i in range(len(keys))
    }


def forward(params, x):
    """Logits [batch, classes] and the activations of the hidden layers, each [batch, units]."""
    *hidden, output = params.values()
    activations = []
    for layer in hidden:
        x = jax.nn.relu(jnp.dot(x, layer["kernel"]) + layer["bias"][None])
        activations.append(x)
    return jnp.dot(x, output["kernel"]) + output["bias"][None], activations


def dormant_share(activations):
    """Share of all hidden units that are nearly silent compared with their layer."""
    size = [jnp.mean(jnp.abs(h), axis=0) for h in activations]
    return jnp.mean(jnp.concatenate([s < DORMANT_BELOW * jnp.mean(s) for s in size]))


def train(key, images, tx, tasks):
    """Learns `tasks` tasks one after the other with the optimizer `tx`; one seed."""
    init_key, *task_keys = jax.random.split(key, tasks + 1)

    def learn_task(carry, key):
        label_key, batch_key = jax.random.split(key)
        labels = jax.random.randint(label_key, (IMAGES,), 0, CLASSES)

        def loss(params, batch):
            logits, _ = forward(params, images[batch])
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels[batch])
            return losses.mean()

        def step(carry, key):
            params, state = carry
            batch = jax.random.randint(key, (BATCH_SIZE,), 0, IMAGES)
            grads = jax.grad(loss)(params, batch)
            updates, state = tx.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        carry, _ = jax.lax.scan(step, carry, jax.random.split(batch_key, STEPS_PER_TASK))
        logits, activations = forward(carry[0], images)
        recalled = jnp.argmax(logits, axis=-1) == labels
        return carry, Curves(jnp.mean(recalled), dormant_share(activations))

    params = init_network(init_key)
    _, curves = jax.lax.scan(learn_task, (params, tx.init(params)), jnp.stack(task_keys))
    return curves


def compare(tasks: int, seeds: int) -> dict[str, Curves]:
    """Curves of each optimizer; every seed of one optimizer in one compiled program."""
    images = jnp.asarray(load_digits().data[:IMAGES] / 16, jnp.float32)
    keys = jax.random.split(jax.random.key(0), seeds)
    results = {}
    for name, tx in OPTIMIZERS.items():
        start = time.perf_counter()
        run = jax.jit(jax.vmap(partial(train, images=images, tx=tx, tasks=tasks)))
        results[name] = jax.device_get(run(keys))
        print(f"{name}: {seeds} seeds, {tasks} tasks, {time.perf_counter() - start:.0f} s")
    return results


def first_and_last(curve, window: int = 5) -> tuple[float, float]:
    """Mean over all seeds of the first and the last few tasks."""
    return float(curve[:, :window].mean()), float(curve[:, -window:].mean())


def table(results: dict[str, Curves]) -> str:
    """The first and the last five tasks, mean over seeds, and the worst seed at the end."""
    lines = [
        f"{'':12}{'labels recalled':^34}{'dormant units':^20}",
        f"{'':12}{'first 5':>10}{'last 5':>10}{'worst seed':>14}{'first 5':>10}{'last 5':>10}",
    ]
    for name, curves in results.items():
        worst = curves.accuracy[:, -5:].mean(axis=1).min()
        recalled, dormant = first_and_last(curves.accuracy), first_and_last(curves.dormant)
        lines += [
            f"{name:12}{recalled[0]:10.0%}{recalled[1]:10.0%}{worst:14.0%}"
            f"{dormant[0]:10.0%}{dormant[1]:10.0%}"
        ]
    return "\n".join(lines)


def panel(rows: alt.Data, measure: str, title: str):
    """One measure over the tasks: a thin line for each seed and a thick one for their mean."""
    color = alt.Color(
        "method:N",
        title=None,
        scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())),
    )
    share = {"title": title, "axis": alt.Axis(format="%", tickCount=5)}
    base = alt.Chart(rows, width=390, height=290).encode(
        x=alt.X("task:Q", axis=alt.Axis(grid=False), scale=alt.Scale(nice=False, zero=False)),
        color=color,
    )
    seeds = base.mark_line(strokeWidth=0.8, opacity=0.4).encode(
        y=alt.Y(f"{measure}:Q", scale=alt.Scale(domain=[0, 1]), **share), detail="seed:N"
    )
    return seeds + base.mark_line(strokeWidth=3).encode(y=alt.Y(f"mean({measure}):Q", **share))


def figure(results: dict[str, Curves]):
    """Both panels under a title that states what was found."""
    rows = [
        {"method": name, "seed": s, "task": t + 1, "accuracy": float(a), "dormant": float(d)}
        for name, curves in results.items()
        for s, (accuracies, dormants) in enumerate(zip(*curves, strict=True))
        for t, (a, d) in enumerate(zip(accuracies, dormants, strict=True))
    ]
    found = {name: first_and_last(curves.accuracy) for name, curves in results.items()}
    changes = [f"{name} from {first:.0%} to {last:.0%}" for name, (first, last) in found.items()]
    seeds, tasks = next(iter(results.values())).accuracy.shape
    title = alt.TitleParams(
        "Memorising random labels, task after task: " + ", ".join(changes),
        subtitle=(
            "Share of labels recalled, first five and last five tasks. "
            f"{seeds} seeds (thin), their mean (thick), {tasks} tasks of {STEPS_PER_TASK} steps."
        ),
    )
    data = alt.Data(values=rows)
    recalled = panel(data, "accuracy", "labels recalled at the end of the task")
    dormant = panel(data, "dormant", "dormant hidden units")
    return (
        (recalled | dormant)
        .properties(title=title, padding=16, background="white")
        .configure_title(fontSize=17, subtitleFontSize=13, subtitleColor="#555", offset=14)
        .configure_axis(
            labelFontSize=12, titleFontSize=13, titleFontWeight="normal", titlePadding=10
        )
        .configure_legend(
            orient="top", labelFontSize=14, symbolStrokeWidth=4, symbolSize=300, symbolOpacity=1
        )
        .configure_view(stroke=None)
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the comparison, prints its table and writes its picture."""
    parser = argparse.ArgumentParser(description="Adam loses plasticity and CPR keeps it.")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the pictures")
    args = parser.parse_args(argv)

    results = compare(args.tasks, args.seeds)
    print(table(results))
    args.out.mkdir(parents=True, exist_ok=True)
    chart = figure(results)
    for suffix, options in ((".png", {"scale_factor": 2}), (".svg", {})):
        path = args.out / f"plasticity{suffix}"
        chart.save(path, **options)
        print(path)


if __name__ == "__main__":
    main()
