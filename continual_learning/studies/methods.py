"""From a `MethodSpec` to an Optax transformation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optax

from continual_learning.optim import NoReset, ResetMethod, UnitGraph, attach_reset_method, registry
from continual_learning.optim.method import choice_of, number_names
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import Field, fields_of
from continual_learning.studies.experiment import Experiment, MethodSpec, Option, located

_OPTIMIZERS: dict[str, Callable[[Any, float], optax.GradientTransformation]] = {
    "adam": lambda rate, eps_root: optax.adam(rate, eps_root=eps_root),
    "adamw": lambda rate, eps_root: optax.adamw(rate, eps_root=eps_root),
    # Muon is for kernels of two axes; the rest has Adam.
    "muon": lambda rate, eps_root: optax.contrib.muon(rate, adam_eps_root=eps_root),
}


def transformation(
    method: MethodSpec,
    units: UnitGraph | Callable[[Any], UnitGraph] | None,
    *,
    init: str,
    key: Any = 0,
    hyper: Mapping[str, Any] | None = None,
    histogram: bool = True,
) -> optax.GradientTransformationExtraArgs:
    """The method as an optimizer: clip, base optimizer, and the reset method around both.

    Scores come from the gradients as they came in, before the clip. Without a reset method it is
    `NoReset()`, so that all methods have one kind of state and log.

    Args:
      method: what to make.
      units: as for `attach_reset_method`.
      init: name of the network's initialiser, from which fresh weights are drawn unless the
        method's options say otherwise.
      key: an integer or a JAX key.
      hyper: numbers that take the place of the method's (`learning_rate`, `clip`, `eps_root`,
        options); they may be traced.
      histogram: as for `attach_reset_method`.
    """
    numbers = dict(hyper or {})
    learning_rate = numbers.pop("learning_rate", method.learning_rate)
    clip = numbers.pop("clip", method.clip)
    eps_root = numbers.pop("eps_root", method.eps_root or 0.0)
    inner = _OPTIMIZERS[method.optimizer](learning_rate, eps_root)
    if clip is not None:
        inner = optax.chain(optax.clip_by_global_norm(clip), inner)
    reset = reset_method(method.reset, {**method.options, **numbers}, init=init, key=key)
    return attach_reset_method(tx=inner, reset_method=reset, units=units, histogram=histogram)


def reset_method(
    name: str | None, options: Mapping[str, Any], *, init: str, key: Any = 0
) -> ResetMethod:
    """The reset method of that name; `NoReset()` for None."""
    options = dict(options)
    init = options.pop("init", init)
    cls = _class(name)
    valid = option_names(cls)
    for option in options:
        if option not in valid:
            raise unknown(f"option of {name or 'a method without resets'}", option, valid)
    return cls(**options, init=init, key=key)


def needs_sample_scores(method: MethodSpec) -> bool:
    """Whether its reset method must be given per-sample scores."""
    made = reset_method(method.reset, method.options, init="lecun_normal")
    return "sample_scores" in made.requires


def option_names(cls: type[ResetMethod]) -> list[str]:
    """Names of a reset method's options."""
    return [f.name for f in dataclasses.fields(cls) if f.name != "key"]


def check(experiment: Experiment) -> None:
    """Raise if a reset method of an experiment does not take its options, or lanes its numbers.

    Descriptions are made without this check, which imports the classes of the methods.
    """
    for name in experiment.methods:
        check_method(experiment, name)
    known = experiment.fields()
    for scale, values in experiment.scales.items():
        for name in (name for name in values if name not in known):
            reset, option = name.split(".")
            with located(f"scales.{scale}"):
                check_options(reset, {option: values[name]})
    if experiment.lanes:
        [method] = experiment.methods.values()
        numbers = experiment.agent.numbers()
        check_lanes(method, experiment.lanes, {name: known[name] for name in numbers})


def check_method(experiment: Experiment, name: str) -> None:
    """Raise if the reset method of one method does not take its options."""
    method = experiment.methods[name]
    if method.reset is not None:
        with located(f"methods.{name}"):
            check_options(method.reset, method.options)


def check_options(name: str, options: Mapping[str, Option]) -> None:
    """Raises if the reset method of that name does not take the options, or not these values."""
    try:
        cls = _class(name)
    except registry.RegistryError as error:
        raise StudyError(str(error)) from None
    known = {f.name: f for f in dataclasses.fields(cls)}
    for option, value in options.items():
        if option not in option_names(cls):
            raise unknown(f"option of {name}", option, option_names(cls))
        wanted, words = option_type(known[option])
        fits = type(value) not in (int, float) or bounds.number(value)
        if type(value) not in wanted or not fits:
            raise StudyError(f"{option} of {name} must be {words}, got {bounds.shown(value)}.")
    needed = [n for n, f in known.items() if f.default is dataclasses.MISSING and n not in options]
    if needed:
        raise StudyError(f"{name} needs the options {', '.join(needed)}.")
    try:
        reset_method(name, options, init="lecun_normal")
    except (TypeError, ValueError) as error:
        raise StudyError(str(error)) from None


def check_lanes(
    method: MethodSpec, lanes: Mapping[str, Sequence[float]], others: Mapping[str, Field]
) -> None:
    """Raises unless these are numbers that lanes may differ in, with values that they may have.

    Args:
      method: whose numbers they may be.
      lanes: {name: values}.
      others: fields of the experiment that are valid too.
    """
    own = number_names(_class(method.reset))
    fields = {
        name: fields_of(MethodSpec)[name] for name in ("learning_rate", "clip", "eps_root")
    } | dict(others)
    for name, values in lanes.items():
        if name not in (*own, *fields):
            raise unknown("number of the method", name, [*own, *fields])
        for value in values:
            if name not in own:
                fields[name].check(value)
                continue
            try:
                options = {**method.options, name: value}
                reset_method(method.reset, options, init="lecun_normal")
            except (TypeError, ValueError) as error:
                raise StudyError(f"lanes.{name}: {error}") from None


def option_type(option: dataclasses.Field) -> tuple[tuple[type, ...], str]:
    """Return the types that an option of a reset method takes, and the same in words."""
    found = choice_of(option)
    if option.name == "init":
        return (str,), "the name of an initialiser or 'as_initialised'"
    if found is None:
        return (int, float), "a number"
    if isinstance(option.default, bool):
        return (bool,), "true or false"
    return (str,), "text"


def _class(reset: str | None) -> type[ResetMethod]:
    return NoReset if reset is None else registry.get(reset)
