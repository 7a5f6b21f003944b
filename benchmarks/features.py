"""What traced features and per-sample scores cost: a training step with them, over one without.

Two networks: the SlipperyAnt value network (5×256, swish, batch 6144) and a small CNN (batch 256).
"by hand" is a step whose model returns its features itself and that computes their mean
magnitudes; "with_features" takes them out of the program; "per_sample_scores" is a step with the
scores that CPR's `score="per_sample"` needs. All variants run in turn, chunk by chunk, in one
process; ratios are between total times over the same steps, to a step with the gradients alone.

    python benchmarks/features.py --steps 2000 --json features.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import overhead

from continual_learning.optim import trace_units


def mlp(params, x):
    """Return the value network: (output, features)."""
    features = {}
    for i in range(overhead.DEPTH):
        layer = params[f"layer_{i}"]
        x = jax.nn.swish(x @ layer["kernel"] + layer["bias"])
        features[f"layer_{i}/kernel"] = x
    layer = params[f"layer_{overhead.DEPTH}"]
    return x @ layer["kernel"] + layer["bias"], features


def cnn(params, x):
    """Two convolutions, pooling, a dense layer: (output, features)."""
    features = {}
    for name in ("a", "b"):
        spec = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, params[name], (1, 1), "SAME", dimension_numbers=spec)
        x = features[name] = jax.nn.relu(x)
        window = (1, 2, 2, 1)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    x = features["c"] = jax.nn.relu(x.reshape(x.shape[0], -1) @ params["c"])
    return x @ params["d"], features


def cnn_params(key):
    """Parameters for images [28, 28, 1]."""
    shapes = {"a": (3, 3, 1, 32), "b": (3, 3, 32, 64), "c": (3136, 128), "d": (128, 1)}
    init = jax.nn.initializers.lecun_normal()
    return {name: init(jax.random.fold_in(key, i), s) for i, (name, s) in enumerate(shapes.items())}


NETWORKS = {  # (function, parameters, shape of a batch)
    "mlp": (mlp, overhead.network, (6144, overhead.OBSERVATION)),
    "cnn": (cnn, cnn_params, (256, 28, 28, 1)),
}


def variants(network, params, x, y):
    """{variant: (params, x, y) -> (gradients, what is computed beside them)}."""

    def apply(params, x):
        return network(params, x)[0]

    graph = trace_units(apply, params, x[:1])

    def loss(out, y):
        return jnp.mean(jnp.square(out - y))

    def used(features):
        return jax.tree.map(lambda h: jnp.mean(jnp.abs(h), axis=tuple(range(h.ndim - 1))), features)

    def alone(params, x, y):
        return jax.grad(lambda p: loss(apply(p, x), y))(params), ()

    def by_hand(params, x, y):
        def own(p):
            out, features = network(p, x)
            return loss(out, y), features

        grads, features = jax.grad(own, has_aux=True)(params)
        return grads, used(features)

    def traced(params, x, y):
        def own(p):
            out, features, _ = graph.with_features(apply)(p, x)
            return loss(out, y), features

        grads, features = jax.grad(own, has_aux=True)(params)
        return grads, used(features)

    def scored(params, x, y):
        score = graph.per_sample_scores(lambda p, x, y: loss(apply(p, x), y))
        return score(params, x, y)[1:]

    return {
        "gradients": alone,
        "by hand": by_hand,
        "with_features": traced,
        "per_sample_scores": scored,
    }


def measure(name: str, steps: int, chunk: int, batch: int | None) -> dict[str, dict]:
    """Milliseconds per step and ratios, by variant."""
    network, init, shape = NETWORKS[name]
    shape = (batch or shape[0], *shape[1:])
    x = jax.random.normal(jax.random.key(1), shape)
    y = jnp.sin(x.reshape(len(x), -1).sum(-1, keepdims=True))
    start = init(jax.random.key(0))
    tx = optax.adam(1e-3)
    carries, runs, seconds = {}, {}, {}
    for variant, gradient in variants(network, start, x, y).items():

        def step(carry, _, gradient=gradient):
            params, state, sums = carry
            grads, beside = gradient(params, x, y)
            updates, state = tx.update(grads, state, params)
            return (
                optax.apply_updates(params, updates),
                state,
                jax.tree.map(jnp.add, sums, beside),
            ), None

        beside = jax.eval_shape(gradient, start, x, y)[1]
        sums = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), beside)
        run = jax.jit(lambda carry, step=step: jax.lax.scan(step, carry, length=chunk)[0])
        carries[variant] = jax.block_until_ready(run((start, tx.init(start), sums)))
        runs[variant], seconds[variant] = run, []
    for r in range(steps // chunk):
        for variant in list(runs) if r % 2 == 0 else list(runs)[::-1]:
            begin = time.perf_counter()
            carries[variant] = jax.block_until_ready(runs[variant](carries[variant]))
            seconds[variant].append(time.perf_counter() - begin)
    base = np.array(seconds["gradients"])
    return {
        variant: {
            "ms_per_step": 1e3 * sum(s) / (len(s) * chunk),
            "ratio": sum(s) / base.sum(),
            "ratio_of_rounds": [float((s / base).min()), float((s / base).max())],
        }
        for variant, s in seconds.items()
    }


def main() -> None:
    """Print a table and, with --json, write it with the machine's description."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--chunk", type=int, default=250, help="steps per compiled call")
    parser.add_argument("--batch", type=int, help="instead of the networks' own")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    device = jax.devices()[0]
    report = {
        "device": device.device_kind,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "steps": args.steps,
        "batch": args.batch,
        "results": {},
    }
    print(f"{device.device_kind}, jax {jax.__version__}, {args.steps} steps")
    for name in args.networks:
        rows = measure(name, args.steps, args.chunk, args.batch)
        report["results"][name] = rows
        print(f"\n{name}\n{'variant':20} {'ms/step':>9} {'ratio':>7}  rounds")
        for variant, row in rows.items():
            low, high = row["ratio_of_rounds"]
            print(
                f"{variant:20} {row['ms_per_step']:9.3f} {row['ratio']:7.3f}  {low:.3f}-{high:.3f}"
            )
        if args.json:
            args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
