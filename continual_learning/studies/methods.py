"""Makes Optax transformations of the descriptions of methods, and checks their options."""

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
from continual_learning.studies import optimizers
from continual_learning.studies.experiment import Experiment, MethodSpec, Option, located


def transformation(
    method: MethodSpec,
    units: UnitGraph | Callable[[Any], UnitGraph] | None,
    *,
    init: str,
    key: Any = 0,
    hyper: Mapping[str, Any] | None = None,
    histogram: bool = True,
) -> optax.GradientTransformationExtraArgs:
    """Return the optimizer of a method: clip, base optimizer, and the reset method around both.

    Scores come from the gradients before the clip. A method without a reset method has `NoReset()`,
    so that all methods have one kind of state and log.

    Args:
      method: the description of the method.
      units: the unit graph, as in `attach_reset_method`.
      init: the name of the network's initializer, which draws fresh weights unless the options of
        the method name another one.
      key: an integer or a JAX key.
      hyper: numbers that replace those of the method (`learning_rate`, `clip`, `eps_root`,
        options); they may be traced.
      histogram: whether to log histograms, as in `attach_reset_method`.
    """
    numbers = dict(hyper or {})
    learning_rate = numbers.pop("learning_rate", method.learning_rate)
    clip = numbers.pop("clip", method.clip)
    eps_root = numbers.pop("eps_root", method.eps_root)
    inner = optimizers.make(method.optimizer, learning_rate, eps_root)
    if clip is not None:
        inner = optax.chain(optax.clip_by_global_norm(clip), inner)
    reset = reset_method(method.reset, {**method.options, **numbers}, init=init, key=key)
    return attach_reset_method(tx=inner, reset_method=reset, units=units, histogram=histogram)


def reset_method(
    name: str | None, options: Mapping[str, Any], *, init: str, key: Any = 0
) -> ResetMethod:
    """Return a reset method.

    Args:
      name: the name of the reset method; None gives `NoReset()`.
      options: the options of the reset method.
      init: the name of the initializer of fresh weights, unless the options name one.
      key: an integer or a JAX key.
    """
    options = dict(options)
    init = options.pop("init", init)
    cls = _class(name)
    valid = option_names(cls)
    for option in options:
        if option not in valid:
            raise unknown(f"option of {name or 'a method without resets'}", option, valid)
    return cls(**options, init=init, key=key)


def needs_sample_scores(method: MethodSpec) -> bool:
    """Return whether the reset method of a method needs per-sample scores."""
    made = reset_method(method.reset, method.options, init="lecun_normal")
    return "sample_scores" in made.requires


def option_names(cls: type[ResetMethod]) -> list[str]:
    """Return the names of the options of a reset method."""
    return [f.name for f in dataclasses.fields(cls) if f.name != "key"]


def check(experiment: Experiment) -> None:
    """Raise a StudyError if an optimizer, an option of a reset method or a number is not valid.

    The numbers are those of `lanes`. Descriptions are made without this check, because it imports
    the optimizers and the classes of the methods.
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
    """Raise a StudyError if a method's optimizer or the options of its reset are not valid."""
    method = experiment.methods[name]
    with located(f"methods.{name}"):
        optimizers.check(method.optimizer, eps_root=method.eps_root is not None)
        if method.reset is not None:
            check_options(method.reset, method.options)


def check_options(name: str, options: Mapping[str, Option]) -> None:
    """Raise a StudyError if a reset method does not take these options or their values."""
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
    """Raise a StudyError unless lanes may differ in these numbers and have these values.

    Args:
      method: the method, which has some of the numbers.
      lanes: {name: values}.
      others: {name: field} of the experiment that are valid too.
    """
    own = number_names(_class(method.reset))
    fields = {
        name: fields_of(MethodSpec)[name] for name in ("learning_rate", "clip", "eps_root")
    } | dict(others)
    if "eps_root" in lanes:
        with located("lanes"):
            optimizers.check(method.optimizer, eps_root=True)
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
    """Return the types that an option of a reset method takes, and a description of them."""
    found = choice_of(option)
    if option.name == "init":
        return (str,), "the name of an initializer or 'as_initialized'"
    if found is None:
        return (int, float), "a number"
    if isinstance(option.default, bool):
        return (bool,), "true or false"
    if isinstance(option.default, int):
        return (int,), "an integer"
    return (str,), "text"


def _class(reset: str | None) -> type[ResetMethod]:
    return NoReset if reset is None else registry.get(reset)
