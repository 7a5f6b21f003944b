"""The base optimizers that a method can name: factories of Optax, and of two other packages."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from continual_learning.schema.bounds import shown
from continual_learning.schema.errors import MissingExtraError, StudyError

Factory = Callable[..., optax.GradientTransformation]


class Package(NamedTuple):
    """A place of an optimizer outside of Optax.

    Attributes:
      module: the module that has it.
      factory: the name of its factory there.
      distribution: the name of the package that holds the module.
      command: the command that installs it.
    """

    module: str
    factory: str
    distribution: str
    command: str


PACKAGES: Mapping[str, Package] = MappingProxyType(
    {
        "kron": Package("psgd_jax.kron", "kron", "psgd-jax", "pip install psgd-jax"),
        # No release on the package index was known when this was written.
        "soap": Package(
            "soap_jax",
            "soap",
            "soap-jax",
            "pip install git+https://github.com/haydn-jones/SOAP_JAX",
        ),
    }
)
"""The optimizers of other packages, which are imported when one is used."""

_RATE = "learning_rate"
_EPS_ROOT = ("eps_root", "adam_eps_root")
_SUGGESTED = 3  # names in an error
_LONGEST = 80  # letters of a name in an error


def names() -> list[str]:
    """Return all names: those of Optax, those of `optax.contrib`, those of other packages."""
    return [*_optax(), *PACKAGES]


def make(name: str, learning_rate: Any, eps_root: Any = None) -> optax.GradientTransformation:
    """Return an optimizer.

    Args:
      name: its name, one of `names()`.
      learning_rate: its learning rate, which may be traced.
      eps_root: the constant under the root of its second moment, which may be traced; None takes
        the default of the optimizer, or none if it has none.

    Raises:
      StudyError: if the name is unknown, its package is not installed, or `eps_root` is given to
        an optimizer that has none.
    """
    factory = _factory(name)
    if eps_root is None:
        return factory(learning_rate)
    option = _eps_root(factory)
    if option is None:
        having = ", ".join(each for each, own in _optax().items() if _eps_root(own))
        raise StudyError(f"eps_root is set, but {name} has none. Optimizers that do: {having}.")
    return factory(learning_rate, **{option: eps_root})


def check(name: str, *, eps_root: bool) -> None:
    """Raise a StudyError unless agents can use an optimizer, with `eps_root` if that is true."""
    make(name, 1e-3, 1e-8 if eps_root else None)
    _try(name)


@functools.cache
def _try(name: str) -> None:
    """Raise a StudyError unless gradients and parameters are all that an optimizer needs."""

    def step(rate: jax.Array, params: Any) -> Any:
        tx = make(name, rate)
        return tx.update(params, tx.init(params), params)

    params = {"kernel": jnp.zeros((2, 2)), "bias": jnp.zeros(2)}
    try:
        jax.eval_shape(step, jnp.float32(1e-3), params)
    except StudyError:
        raise
    except Exception as error:  # the factories of others may raise any error
        raise StudyError(
            f"Agents cannot use the optimizer {name}, which needs more than gradients and "
            f"parameters: {shown(str(error), 200)}."
        ) from None


def _factory(name: str) -> Factory:
    if name in PACKAGES:
        return _of_package(name, PACKAGES[name])
    known = _optax()
    if name not in known:
        raise _unknown(name)
    return known[name]


def _of_package(name: str, package: Package) -> Factory:
    try:
        return getattr(importlib.import_module(package.module), package.factory)
    except (ImportError, AttributeError) as error:
        own = package.module.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == own:
            raise MissingExtraError(
                f"The optimizer {name} needs the package {package.distribution}, which is not "
                f"installed. Run: {package.command}"
            ) from None
        raise MissingExtraError(
            f"The optimizer {name} cannot be imported: {error}. {package.distribution} may need "
            "another package, or another version of Optax."
        ) from None


@functools.cache
def _optax() -> Mapping[str, Factory]:
    """Return {name: factory} of Optax; nothing else of its modules can be named."""
    own = dict(_factories(optax, ""))
    # Muon trains the kernels of two axes, and Adam trains all other parameters.
    return MappingProxyType({**own, "muon": contrib.muon, **dict(_factories(contrib, "contrib."))})


def _factories(module: ModuleType, prefix: str) -> Iterator[tuple[str, Factory]]:
    """Yield the functions of a module that make an optimizer of a learning rate alone."""
    for name, value in sorted(vars(module).items()):
        # Parts of optimizers have a name such as `scale_by_learning_rate`.
        if name.startswith(("_", "scale_by_")) or not inspect.isfunction(value):
            continue
        first, *rest = [*inspect.signature(value).parameters.values(), None]
        if first is None or first.name != _RATE:
            continue
        if all(each is None or each.default is not each.empty for each in rest):
            yield prefix + name, value


def _eps_root(factory: Factory) -> str | None:
    """Return the name of the factory's option `eps_root`, or None if it has none."""
    options = inspect.signature(factory).parameters
    return next((name for name in _EPS_ROOT if name in options), None)


def _unknown(name: str) -> StudyError:
    name = name[:_LONGEST]
    known = names()
    close = difflib.get_close_matches(name, known, _SUGGESTED)
    # The name of an optimizer of `optax.contrib` without its prefix is a near match, too.
    close = [each for each in known if each == f"contrib.{name}"] + close
    close = list(dict.fromkeys(close))[:_SUGGESTED]
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return StudyError(f"Unknown optimizer {shown(name)}.{hint} Valid: {', '.join(known)}.")
