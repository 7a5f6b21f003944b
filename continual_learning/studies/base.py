"""What all experiments have: methods, a budget, scales; frozen, typed, checked when made."""

from __future__ import annotations

import abc
import contextlib
import contextvars
import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

from continual_learning.optim import registry
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import check_fields, field, fields_of
from continual_learning.studies import early_stopping

Option = bool | int | float | str
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_trusted = contextvars.ContextVar("trusted", default=False)


@contextlib.contextmanager
def trusted() -> Iterator[None]:
    """Makes specs without checking the options of their reset methods.

    The check needs JAX. The presets do without it, so that they can be listed and shown at once;
    the tests make it up for them.
    """
    token = _trusted.set(True)
    try:
        yield
    finally:
        _trusted.reset(token)


def is_trusted() -> bool:
    """Whether specs are being made without the checks that need JAX."""
    return _trusted.get()


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A base optimizer, and the reset method around it."""

    optimizer: Literal["adam", "adamw", "muon"] = field("adam", help="base optimizer")
    learning_rate: float = field(1e-3, positive=True, help="of the base optimizer")
    eps_root: float | None = field(
        None,
        positive=True,
        help="what Adam, and Muon's Adam part, adds to the second moment under the root",
    )
    clip: float | None = field(
        None, positive=True, help="global norm to which gradients are clipped before the optimizer"
    )
    reset: str | None = field(
        None, help=f"reset method: {', '.join(registry.OURS)}, or one of your own"
    )
    options: Mapping[str, Option] = field(factory=dict, help="arguments of the reset method")

    def __post_init__(self):
        check_fields(self)
        object.__setattr__(self, "options", _table("options", self.options))
        if not is_trusted():
            self.check_options()

    def check_options(self) -> None:
        """Raises if the reset method does not take the options, or not these values."""
        if self.reset is None:
            if self.options:
                raise StudyError(
                    f"Options {', '.join(self.options)} without a reset method: set `reset`."
                )
            return
        from continual_learning.studies.methods import check_options

        check_options(self.reset, self.options)

    def override(self, **changes: Any) -> Self:
        """With other values; names that are not fields are options, None takes an option away."""
        own = {n: changes.pop(n) for n in fields_of(type(self)) if n in changes}
        if changes and own.get("reset", self.reset) is None:
            raise unknown("field", next(iter(changes)), fields_of(type(self)))
        options = {**own.get("options", self.options), **changes}
        own["options"] = {n: v for n, v in options.items() if v is not None}
        return dataclasses.replace(self, **own)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentSpec(abc.ABC):
    """What all experiments have.

    `spec.at_scale("smoke")` is the same experiment with a smaller budget; "paper" is the spec as
    it is. `spec.override(tasks=10, **{"cpr.max_reset": 0.02})` changes anything.
    """

    kind: ClassVar[str]

    name: str = field(help="name of the experiment")
    title: str = field(help="what it is, in a line")
    tasks: int = field(
        budget=True, positive=True, most=bounds.COUNT, help="number of tasks, one after the other"
    )
    seeds: int = field(5, budget=True, positive=True, most=bounds.COUNT, help="number of seeds")
    methods: Mapping[str, MethodSpec] = field(help="the methods, by name")
    scales: Mapping[str, Mapping[str, Any]] = field(
        factory=dict,
        help="smaller budgets: which fields get which values, and options of reset methods that "
        'have to act within them ("cpr.every" = 10)',
    )
    lanes: Mapping[str, tuple[float, ...]] = field(
        factory=dict,
        help="values of numbers of the only method, such as max_reset = [0.01, 0.02]: every "
        "combination runs with every seed, side by side in one program",
    )
    compilation: Literal["full", "quick"] = field(
        "full",
        budget=True,
        help="quick: on a CPU, less time is spent on optimising programs, which then run more "
        "slowly; pays where they hardly run",
    )
    collapse: str | None = field(None, help=early_stopping.HELP)

    def __post_init__(self):
        check_fields(self)
        _check_name("name", self.name)
        object.__setattr__(self, "methods", _table("methods", self.methods))
        if not self.methods:
            raise StudyError("methods must name at least one method.")
        for name, method in self.methods.items():
            _check_name("the name of a method", name)
            if not isinstance(method, MethodSpec):
                raise StudyError(f"methods.{name} must be a MethodSpec, got {method!r}.")
        if self.collapse is not None:
            with located("collapse"):
                early_stopping.parse_rule(self.collapse)
        object.__setattr__(self, "lanes", self._checked_lanes())
        if not 0 <= self.steps <= bounds.INTEGERS:
            raise StudyError(
                f"The {self.tasks} tasks have {bounds.shown(self.steps)} steps, which are counted "
                f"to {bounds.INTEGERS:,}: take fewer tasks, or make them shorter."
            )
        self._check()
        self._check_bins()
        scales = _table("scales", self.scales)
        scales = {name: self._checked_scale(name, scales[name]) for name in scales}
        object.__setattr__(self, "scales", scales)

    @property
    @abc.abstractmethod
    def steps_per_task(self) -> int:
        """Steps of a seed per task, as its rows count them."""

    @property
    def steps(self) -> int:
        """Steps of a seed in all tasks: the last one of a finished run."""
        return self.tasks * self.steps_per_task

    @property
    def points(self) -> int:
        """Combinations of the values of `lanes`, each of which runs with every seed."""
        return math.prod(map(len, self.lanes.values()))

    @abc.abstractmethod
    def _check(self) -> None:
        """Raises where fields do not go together."""

    def _check_bins(self) -> None:
        rule = None if self.collapse is None else early_stopping.parse_rule(self.collapse)
        if rule is not None and self.steps > rule.bin * bounds.COUNT:
            raise StudyError(
                f"collapse: bin = {rule.bin} makes more than {bounds.COUNT:,} bins of the "
                f"{self.steps:,} steps; take a larger one."
            )

    def _checked_lanes(self) -> dict[str, tuple[float, ...]]:
        lanes = _table("lanes", self.lanes)
        if lanes and len(self.methods) != 1:
            raise StudyError(
                f"lanes ({', '.join(lanes)}) are numbers of the only method, but there are "
                f"{', '.join(self.methods)}."
            )
        for name, values in lanes.items():
            listed = isinstance(values, list | tuple) and all(bounds.number(v) for v in values)
            if not listed or not values or len(set(values)) < len(values):
                raise StudyError(
                    f"lanes.{name} must be a list of different numbers, got {bounds.shown(values)}."
                )
        if math.prod(map(len, lanes.values())) > bounds.COUNT:
            raise StudyError(f"lanes make more than {bounds.COUNT:,} combinations.")
        if lanes and not is_trusted():
            from continual_learning.studies.methods import agent_numbers, check_lanes

            [method], known = self.methods.values(), fields_of(type(self))
            check_lanes(method, lanes, {name: known[name] for name in agent_numbers(self)})
        return {name: tuple(values) for name, values in lanes.items()}

    def _checked_scale(self, scale: str, values: Any) -> dict[str, Any]:
        _check_name("the name of a scale", scale)
        if scale == "paper":
            raise StudyError("scales: 'paper' is the spec as it is, and takes no values.")
        values, known = _table(f"scales.{scale}", values), fields_of(type(self))
        budget = [name for name in known if known[name].budget]
        options = {name: value for name, value in values.items() if "." in name}
        for name, value in values.items():
            if name in known and name not in budget:
                raise StudyError(
                    f"scales.{scale}: {name} is no part of the budget. "
                    f"A scale may change: {', '.join(budget)}."
                )
            if name not in known and name not in options:
                raise unknown(f"field in scales.{scale}", name, budget)
            if value is None:
                raise StudyError(f"scales.{scale}: {name} needs a value; leave it out instead.")
        with located(f"scales.{scale}"):
            for name, value in options.items():
                if type(value) not in (bool, int, float, str) or len(name.split(".")) != 2:
                    raise StudyError(
                        f"write RESET.OPTION and its value, such as cpr.every and 10; got {name!r} "
                        f"and {value!r}."
                    )
            fields = {n: known[n].check(value) for n, value in values.items() if n not in options}
        return fields | options

    def at_scale(self, scale: str) -> Self:
        """Return the experiment with the budget of a scale: "paper", or one of `scales`.

        An entry `RESET.OPTION` of a scale is for every method with that reset method; this is
        where it is checked.
        """
        if scale != "paper" and scale not in self.scales:
            raise unknown("scale", scale, ["paper", *self.scales])
        values = self.scales.get(scale, {})
        methods = {}
        for name, method in self.methods.items():
            own = f"{method.reset}."
            options = {n.removeprefix(own): v for n, v in values.items() if n.startswith(own)}
            with located(f"scales.{scale}: methods.{name}"):
                methods[name] = method.override(**options) if options else method
        fields = {name: value for name, value in values.items() if "." not in name}
        return dataclasses.replace(self, methods=methods, **fields)

    def with_methods(self, names: Iterable[str]) -> Self:
        """Return the experiment with these methods beside its own.

        A reset method that it has no options for has its defaults, around the base optimizer of the
        first method without a reset, or else of the first method.
        """
        added = [name for name in names if name not in self.methods]
        if not added:
            return self
        known = registry.registered()
        for name in added:
            if name not in known:
                others = [each for each in known if each not in self.methods]
                raise unknown(f"method of {self.name}", name, [*self.methods, *others])
        own = list(self.methods.values())
        base = next((method for method in own if method.reset is None), own[0])
        methods = dict(self.methods)
        for name in added:
            with located(f"methods.{name}"):
                methods[name] = dataclasses.replace(base, reset=name, options={})
                methods[name].check_options()
        return dataclasses.replace(self, methods=methods)

    def override(self, **changes: Any) -> Self:
        """With other values, by name: `tasks`, `cpr.max_reset` or `methods.cpr.max_reset`."""
        own = {name: value for name, value in changes.items() if "." not in name}
        for name in own:
            if name not in fields_of(type(self)):
                raise unknown(f"field of {self.name}", name, fields_of(type(self)))
        changed = dataclasses.replace(self, **own)
        options: dict[str, dict[str, Any]] = {}
        for name in (n for n in changes if n not in own):
            method, option = changed.method_field(name)
            options.setdefault(method, {})[option] = changes[name]
        methods = dict(changed.methods)
        for method, values in options.items():
            with located(f"methods.{method}"):
                methods[method] = methods[method].override(**values)
        return dataclasses.replace(changed, methods=methods)

    def method_field(self, path: str) -> tuple[str, str]:
        """`cpr.max_reset` (or `methods.cpr.options.max_reset`) as ("cpr", "max_reset")."""
        parts = path.split(".")
        parts = parts[1:] if parts[0] == "methods" else parts
        if len(parts) == 3 and parts[1] == "options":
            del parts[1]
        if len(parts) != 2:
            raise StudyError(f"{path!r} is no field. Write METHOD.OPTION, such as cpr.max_reset.")
        if parts[0] not in self.methods:
            raise unknown("method", parts[0], self.methods)
        return parts[0], parts[1]


@contextlib.contextmanager
def located(where: str) -> Iterator[None]:
    """Puts the place into the message of an error."""
    try:
        yield
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None


def _table(name: str, value: Any) -> dict[str, Any]:
    """A copy of a mapping with names as keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise StudyError(f"{name} must be a table of names and values, got {bounds.shown(value)}.")
    return dict(value)


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > bounds.LETTERS:
        raise StudyError(
            f"{what} must be letters, digits and underscores, at most {bounds.LETTERS}, got "
            f"{bounds.shown(name)}."
        )
