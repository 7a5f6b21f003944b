"""What a reset method costs: a full training step with it, over the inner optimizer alone.

The SlipperyAnt value network (5×256, swish, batch 6144) with every method at the ant's presets,
for one seed and for several under `vmap`. A step is forward, backward and update. All variants
run in turn, chunk by chunk, in one process; the ratio is between total times over the same steps,
resets included. "+schedule" is a training loop that knows when resets are due and says so with
`update(…, reset=False)` and, every so many steps, `reset=True`.

    python benchmarks/overhead.py --seeds 1 16 --steps 3000 --json overhead.json

A measurement that takes hours goes in slices: with --time-limit it ends early, and called again
with the same file it adds to what is there, with counters where they would be.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.optim import (
    CBP,
    CPR,
    DASH,
    FIRE,
    SNR,
    TRAC,
    UPGD,
    L2Init,
    LayerReset,
    NaP,
    NoReset,
    Parseval,
    ReDo,
    ReGraMa,
    ShrinkAndPerturb,
    SpectralRegularization,
    WeightClipping,
    attach_reset_method,
)

OBSERVATION, WIDTH, DEPTH = 27, 256, 5
MINIBATCHES = 4  # in rotation, so that no batch stays in a cache
WARM_STEPS, WARM_BATCH = 1000, 64  # not measured; afterwards CBP's units are mature

METHODS = {  # (method, histogram)
    "no_reset": (NoReset(), False),
    "cpr": (CPR(max_reset=0.015, every=1000), False),
    "cbp": (CBP(replacement_rate=3e-3, maturity=100), False),
    "redo": (ReDo(threshold=0.65, every=100), False),
    "regrama": (ReGraMa(threshold=0.25, every=100), False),
    "shrink_perturb": (
        ShrinkAndPerturb(shrink=1e-3, perturb=5e-3, every=1000, kernels_only=True),
        False,
    ),
    "l2_init": (L2Init(), False),
    "weight_clipping": (WeightClipping(), False),
    "nap": (NaP(), False),
    "parseval": (Parseval(), False),
    "spectral": (SpectralRegularization(), False),
    "upgd": (UPGD(), False),
    "trac": (TRAC(), False),
    "snr": (SNR(), False),
    "layer_reset": (LayerReset(every=1000), False),
    "fire": (FIRE(every=1000), False),
    "dash": (DASH(every=1000), False),
    "no_reset+histogram": (NoReset(), True),
    "cpr+histogram": (CPR(max_reset=0.015, every=1000), True),
}
PERIODIC = ("cpr", "redo", "regrama", "shrink_perturb")
VARIANTS = [*METHODS, *(f"{name}+schedule" for name in PERIODIC)]


def network(key: jax.Array) -> dict[str, dict[str, jax.Array]]:
    """Parameters of the value network."""
    sizes = [OBSERVATION, *[WIDTH] * DEPTH, 1]
    init = jax.nn.initializers.lecun_normal()
    return {
        f"layer_{i}": {
            "kernel": init(jax.random.fold_in(key, i), (sizes[i], sizes[i + 1])),
            "bias": jnp.zeros(sizes[i + 1]),
        }
        for i in range(DEPTH + 1)
    }


def loss(params, x, y):
    """Squared error [], and the features of the hidden layers."""
    features = {}
    for i in range(DEPTH):
        layer = params[f"layer_{i}"]
        x = jax.nn.swish(x @ layer["kernel"] + layer["bias"])
        features[f"layer_{i}/kernel"] = x
    out = x @ params[f"layer_{DEPTH}"]["kernel"] + params[f"layer_{DEPTH}"]["bias"]
    return jnp.mean((out - y) ** 2), features


def chunk_runner(tx, steps: int, every: int | None = None):
    """(init over seeds, a compiled function that runs `steps` steps for all seeds).

    With `every`, the loop says which steps reset: the last of every so many.
    """

    def one(carry, data):
        def step(carry, t, **reset):
            params, state = carry
            x, y = jax.tree.map(lambda d: d[t % MINIBATCHES], data)
            grads, features = jax.grad(loss, has_aux=True)(params, x, y)
            updates, state = tx.update(grads, state, params, features=features, **reset)
            return (optax.apply_updates(params, updates), state), None

        def stretch(carry, ts):
            carry, _ = jax.lax.scan(partial(step, reset=False), carry, ts[:-1])
            return step(carry, ts[-1], reset=True)

        ts = jnp.arange(steps)
        if every is None:
            return jax.lax.scan(step, carry, ts)[0]
        return jax.lax.scan(stretch, carry, ts.reshape(-1, every))[0]

    def init(key):
        params = network(key)
        return params, tx.init(params)

    return jax.jit(jax.vmap(init)), jax.jit(jax.vmap(one), donate_argnums=0)


def measure(
    seeds: int, steps: int, chunk: int, batch: int, only: list[str], seconds: dict, until: float
) -> dict[str, float | None]:
    """Time chunks of all variants in turn, until there are enough or it is late.

    Args:
      seeds: how many, side by side.
      steps: in all.
      chunk: steps per measurement.
      batch: samples per step.
      only: the variants.
      seconds: {variant: seconds of each chunk}; chunks are added.
      until: by `time.monotonic`.

    Returns:
      How many resets each variant has made.
    """
    inner = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-3))
    variants = {"inner": (inner, None)}
    for name in only:
        method, histogram = METHODS[name.removesuffix("+schedule")]
        tx = attach_reset_method(tx=inner, reset_method=method, histogram=histogram)
        variants[name] = (tx, method.every if name.endswith("+schedule") else None)
    keys = jax.random.split(jax.random.key(0), seeds)
    x = jax.random.normal(jax.random.key(1), (seeds, MINIBATCHES, batch, OBSERVATION))
    y = jnp.sin(x.sum(-1, keepdims=True))
    small = x[:1, :, :WARM_BATCH], y[:1, :, :WARM_BATCH]

    carries, runs = {}, {}
    for name, (tx, every) in variants.items():
        done = len(seconds.setdefault(name, [])) * chunk
        init, warm = chunk_runner(tx, WARM_STEPS + done)
        # One seed for all of them: 16 would take longer than what is measured.
        warmed = warm(init(keys[:1]), small)
        carries[name] = jax.tree.map(lambda a: jnp.repeat(a, seeds, axis=0), warmed)
        _, run = chunk_runner(tx, chunk, every)
        runs[name] = run.lower(carries[name], (x, y)).compile()
    jax.block_until_ready(carries)
    for number in range(len(seconds["inner"]), steps // chunk):
        order = list(variants) if number % 2 == 0 else list(variants)[::-1]
        for name in order:
            start = time.perf_counter()
            carries[name] = jax.block_until_ready(runs[name](carries[name], (x, y)))
            seconds[name].append(time.perf_counter() - start)
        if time.monotonic() >= until:
            break
    return {
        name: None if name == "inner" else float(state.log.resets.mean())
        for name, (_, state) in carries.items()
    }


def table(seconds: dict, resets: dict, chunk: int) -> dict[str, dict]:
    """Milliseconds per step and ratio to the inner optimizer, by variant."""
    rows = {}
    for name, times in seconds.items():
        rounds = np.array(times) / np.array(seconds["inner"])
        rows[name] = {
            "ms_per_step": 1e3 * sum(times) / (len(times) * chunk),
            "ratio": sum(times) / sum(seconds["inner"]),
            "ratio_of_rounds": [float(rounds.min()), float(rounds.max())],
            "resets": resets[name],
            "seconds": times,
        }
    return rows


def main() -> None:
    """Print a table and, with --json, write it with the machine's description."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--chunk", type=int, default=1000, help="steps per compiled call")
    parser.add_argument("--batch", type=int, default=6144)
    parser.add_argument("--methods", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--time-limit", type=float, default=float("inf"), help="in seconds")
    args = parser.parse_args()
    until = time.monotonic() + args.time_limit
    device = jax.devices()[0]
    report = {
        "device": device.device_kind,
        "platform": device.platform,
        "jax": jax.__version__,
        "optax": optax.__version__,
        "python": platform.python_version(),
        "batch": args.batch,
        "cores": len(os.sched_getaffinity(0)),
        "chunk": args.chunk,
        "results": {},
    }
    if args.json and args.json.exists():
        before = json.loads(args.json.read_text())
        if before | {"results": {}} != report:
            parser.error(f"{args.json} holds measurements of something else: {before | report}")
        report = before
    print(f"{device.device_kind}, jax {jax.__version__}, batch {args.batch}")
    for seeds in args.seeds:
        known = report["results"].get(str(seeds), {})
        seconds = {name: list(row["seconds"]) for name, row in known.items()}
        resets = measure(seeds, args.steps, args.chunk, args.batch, args.methods, seconds, until)
        rows = report["results"][str(seeds)] = table(seconds, resets, args.chunk)
        done = len(seconds["inner"]) * args.chunk
        print(
            f"\n{seeds} seed(s), {done} steps\n{'variant':20} {'ms/step':>9} {'ratio':>7}  rounds"
        )
        for name, row in rows.items():
            low, high = row["ratio_of_rounds"]
            print(f"{name:20} {row['ms_per_step']:9.3f} {row['ratio']:7.3f}  {low:.3f}-{high:.3f}")
        if args.json:
            args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
