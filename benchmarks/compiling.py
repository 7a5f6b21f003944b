"""How long the training step of a U-Net compiles, with a reset method and without.

    python benchmarks/compiling.py
    python benchmarks/compiling.py --methods adam cpr --width 64

Seconds of tracing, lowering and compiling, and the size of the program. Compilation uses several
threads, so that the seconds of the processor say more than those of the clock where others work
on the same machine; `--json` keeps both. Needs the `flax` extra.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from continual_learning.optim import CBP, CPR, ReDo, attach_reset_method, trace_units

METHODS = {
    "cpr": CPR(),
    "cpr_lecun": CPR(init="lecun_normal"),
    "cbp": CBP(),
    "redo": ReDo(),
}


class Block(nn.Module):
    """Two 3×3 convolutions with norms around a residual sum."""

    features: int

    @nn.compact
    def __call__(self, x):
        """[batch, height, width, channels] to the same with `features` channels."""
        y = nn.Conv(self.features, (3, 3))(nn.swish(nn.GroupNorm(8)(x)))
        y = nn.Conv(self.features, (3, 3))(nn.swish(nn.GroupNorm(8)(y)))
        return y + nn.Conv(self.features, (1, 1))(x)


class UNet(nn.Module):
    """A U-Net as diffusion models have it, without attention: two blocks on each level."""

    width: int = 32
    levels: int = 4
    blocks: int = 2

    @nn.compact
    def __call__(self, x):
        """Images [batch, height, width, channels] to images of the same shape."""
        channels = x.shape[-1]
        x = nn.Conv(self.width, (3, 3))(x)
        kept = []
        for level in range(self.levels):
            for _ in range(self.blocks):
                x = Block(self.width * 2**level)(x)
            kept.append(x)
            if level < self.levels - 1:
                x = nn.Conv(self.width * 2**level, (3, 3), 2)(x)
        x = Block(self.width * 2 ** (self.levels - 1))(x)
        for level in reversed(range(self.levels)):
            x = jnp.concatenate([x, kept[level]], axis=-1)
            for _ in range(self.blocks):
                x = Block(self.width * 2**level)(x)
            if level:
                batch, height, width, features = x.shape
                x = jax.image.resize(x, (batch, 2 * height, 2 * width, features), "nearest")
                x = nn.Conv(self.width * 2 ** (level - 1), (3, 3))(x)
        return nn.Conv(channels, (3, 3))(nn.swish(nn.GroupNorm(8)(x)))


def measured(name: str, model: UNet, images: Any) -> dict[str, Any]:
    """Seconds of each phase, of the clock and of the processor."""
    params = jax.eval_shape(model.init, jax.random.key(0), images)
    tx: Any = optax.adam(1e-3)
    graph = trace_units(model.apply, params, images)
    if name != "adam":
        tx = attach_reset_method(tx=tx, reset_method=METHODS[name], units=graph)
    needs = getattr(METHODS.get(name), "requires", ())

    def loss(params, images):
        if "features" in needs:
            out, features, _ = graph.with_features(model.apply)(params, images)
        else:
            out, features = model.apply(params, images), {}
        return jnp.mean((out - images) ** 2), features

    def step(params, state, images):
        grads, features = jax.grad(loss, has_aux=True)(params, images)
        extra = {"features": features} if "features" in needs else {}
        updates, state = tx.update(grads, state, params, **extra)
        return optax.apply_updates(params, updates), state

    state = jax.eval_shape(tx.init, params)
    found: dict[str, Any] = {"method": name, "layers": len(graph.layers)}

    def timed(phase, run):
        clock, processor = time.perf_counter(), time.process_time()
        out = run()
        found[phase] = round(time.perf_counter() - clock, 2)
        found[f"{phase}_processor"] = round(time.process_time() - processor, 2)
        return out

    traced = timed("trace", lambda: jax.jit(step).trace(params, state, images))
    lowered = timed("lower", traced.lower)
    found["lines"] = len(lowered.as_text().splitlines())
    timed("compile", lowered.compile)
    return found


def main() -> None:
    """Print a line for each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["adam", *METHODS])
    parser.add_argument("--width", type=int, default=32, help="channels of the first level")
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--size", type=int, default=32, help="of images")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    images = jax.ShapeDtypeStruct((8, args.size, args.size, 3), jnp.float32)
    found = []
    for name in args.methods:
        found.append(measured(name, UNet(args.width, args.levels), images))
        print(" ".join(f"{key}={value}" for key, value in found[-1].items()), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
