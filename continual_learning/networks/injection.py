"""Plasticity injection: a fresh head that learns, while outputs do not change when it is added."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax

_CURRENT, _ADDED, _TAKEN = "injectable", "injected_{}", "subtracted_{}"


class PlasticityInjection(nn.Module):
    """A head into which plasticity can be injected.

    Without injections it is the head h, whose parameters θ have the name `injectable`. After
    `inject` it is h(θ) + h(θ′) − h(θ″), where θ′ (`injected_0`) and θ″ (`subtracted_0`) are the
    same fresh parameters, of which θ′ alone learns; gradients still flow through all three to the
    inputs. A further injection freezes θ′ as well and adds another pair. The number of trainable
    parameters stays the same. The module itself does not change: its parameters say what was
    injected.

        head = PlasticityInjection(MLP((64,), 4))

    Attributes:
      head: the head, a module with parameters alone (no batch statistics, no dropout).

    References:
      Nikishin et al., Deep Reinforcement Learning with Plasticity Injection, NeurIPS 2023 (arXiv
      2305.15555).
    """

    head: nn.Module

    @nn.compact
    def __call__(self, *inputs: Any) -> Any:
        """Apply the head, and all heads that were injected."""
        # The head is applied as a function, since the module in which it was made may own it.
        head = self.head.clone(parent=None, name=None)
        current = self.param(_CURRENT, lambda key: _parameters(head.init(key, *inputs)))
        params = self.variables["params"]
        number = _number(params)
        if number == 0:
            return head.apply({"params": current}, *inputs)

        def run(name: str) -> Any:
            own = params[name]
            own = own if _learns(name, number) else jax.lax.stop_gradient(own)
            return head.apply({"params": own}, *inputs)

        out = run(_CURRENT)
        for i in range(number):
            # The difference comes first: it is exactly 0 when the pair is injected.
            change = jax.tree.map(lambda a, b: a - b, run(_ADDED.format(i)), run(_TAKEN.format(i)))
            out = jax.tree.map(lambda a, b: a + b, out, change)
        return out


def inject(module: nn.Module, variables: Any, key: jax.Array, *inputs: Any) -> Any:
    """Return variables with a further pair of fresh heads in every `PlasticityInjection`.

    The outputs of the module do not change. The trees of parameters do, so that programs are
    compiled anew, and the optimizer needs a new state: begin it anew for the new heads, as in
    `optax.multi_transform({True: tx, False: optax.set_to_zero()}, trainable)`. Inject target
    networks with the same key.

    Args:
      module: a module that is or contains at least one `PlasticityInjection`.
      variables: its variables, as from `module.init`.
      key: draws the fresh heads.
      *inputs: example inputs of the module.
    """
    # A `PlasticityInjection` makes nothing but `injectable` when it is initialized.
    fresh = module.init(key, *inputs)
    found = 0

    def walk(old: Any, new: Any) -> Any:
        nonlocal found
        if not isinstance(old, Mapping):
            return old
        if _CURRENT not in old:
            return {name: walk(old[name], new[name]) for name in old}
        found += 1
        number = _number(old)
        pair = {_ADDED.format(number): new[_CURRENT], _TAKEN.format(number): new[_CURRENT]}
        # Each has arrays of its own, since a loop that donates its buffers donates them once.
        return {**old, **jax.tree.map(lambda w: w.copy(), pair)}

    result = {**variables, "params": walk(variables["params"], fresh["params"])}
    if not found:
        raise ValueError("inject: the module contains no PlasticityInjection.")
    return result


def trainable(variables: Any) -> Any:
    """Return a tree like the variables: False for frozen heads, True for all that learns.

    It is a mask or the labels of an Optax transformation, which keep weight decay and momentum away
    from frozen heads; their gradients are 0 in any case. It is True everywhere before an injection.
    """

    def walk(node: Any, learns: bool) -> Any:
        if not isinstance(node, Mapping):
            return jax.tree.map(lambda _: learns, node)
        number = _number(node)
        return {
            name: walk(each, learns and (number == 0 or _learns(name, number)))
            for name, each in node.items()
        }

    return walk(variables, True)


def _parameters(variables: Mapping[str, Any]) -> Any:
    others = sorted(set(variables) - {"params"})
    if others:
        raise ValueError(
            f"PlasticityInjection: the head must have parameters alone, but it has "
            f"{', '.join(others)} as well."
        )
    return variables["params"]


def _number(params: Mapping[str, Any]) -> int:
    """Return the number of injections into a head with these parameters."""
    return next(i for i in itertools.count() if _ADDED.format(i) not in params)


def _learns(name: str, number: int) -> bool:
    frozen = {_CURRENT, *(_TAKEN.format(i) for i in range(number))}
    return name not in frozen | {_ADDED.format(i) for i in range(number - 1)}
