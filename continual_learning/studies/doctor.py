"""Reports the packages that are installed or missing, and whether a training step works."""

from __future__ import annotations

import importlib.metadata
import platform

from continual_learning import extras
from continual_learning.installation import DISTRIBUTION, VERSION, command

PACKAGES = ("jax", "jaxlib", "optax", "numpy")


def main() -> int:
    """Print the findings; return 0 if a training step works, else 1."""
    print(f"{DISTRIBUTION} {VERSION}, Python {platform.python_version()}")
    for name in PACKAGES:
        print(f"  {name:20} {version(name) or 'not installed'}")
    for extra, parts in extras.EXTRAS.items():
        absent = extras.missing(extra)
        found = [f"{name} {version(name) or ''}".strip() for name in parts if name not in absent]
        print(f"extra {extra:14} {', '.join(found) or '-'}")
        if absent:
            print(f"  missing: {', '.join(absent)}. To install: {command(extra)}")
    try:
        for line in step():
            print(line)
    except Exception as error:  # a broken installation or device may raise any error
        print(f"The training step failed. {type(error).__name__}: {error}")
        return 1
    return 0


def version(distribution: str) -> str | None:
    """Return the version of a distribution, or None if it is not installed."""
    try:
        return importlib.metadata.version(distribution.partition("[")[0])
    except importlib.metadata.PackageNotFoundError:
        return None


def step() -> list[str]:
    """Train a small network for one step with a reset by CPR; return lines about it."""
    import jax
    import jax.numpy as jnp
    import optax

    from continual_learning.optim import CPR, ResetState, attach_reset_method

    lines = [f"device {device} ({device.device_kind})" for device in jax.devices()]
    shapes = [(4, 16), (16, 16), (16, 1)]
    key, *keys = jax.random.split(jax.random.key(0), 4)
    draw = jax.nn.initializers.he_uniform()
    params = [draw(k, s) for k, s in zip(keys, shapes, strict=True)]
    inputs = jax.random.normal(key, (32, 4))
    targets = jnp.sum(inputs, axis=1, keepdims=True)

    def loss(params: list[jax.Array]) -> jax.Array:
        x = inputs
        for kernel in params[:-1]:
            x = jax.nn.relu(x @ kernel)
        return jnp.mean((x @ params[-1] - targets) ** 2)

    tx = attach_reset_method(tx=optax.adam(1e-2), reset_method=CPR(max_reset=0.01))

    @jax.jit
    def train(params: list[jax.Array]):
        before, grads = jax.value_and_grad(loss)(params)
        updates, state = tx.update(grads, tx.init(params), params, reset=True)
        assert isinstance(state, ResetState)
        return before, loss(optax.tree.add(params, updates)), state.log.resets

    before, after, resets = train(params)
    if not (jnp.isfinite(after) and after < before and jnp.all(resets == 1)):
        raise ArithmeticError(f"loss {before:.4f} → {after:.4f}, resets {resets.tolist()}")
    where = next(iter(after.devices()))
    return [*lines, f"one step with a reset on {where}: loss {before:.4f} → {after:.4f}, fine"]
