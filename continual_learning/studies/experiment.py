"""What an experiment is: a stream of tasks, an agent, its networks, methods, a budget.

Descriptions are frozen, typed and checked when they are made, and need no JAX.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from continual_learning.agents.catalog import Agent
from continual_learning.envs.catalog import Stream
from continual_learning.networks.catalog import Networks
from continual_learning.optim import registry
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, located, unknown
from continual_learning.schema.fields import Factor, Field, check_fields, field, fields_of
from continual_learning.studies.early_stopping import CollapseRule

Option = bool | int | float | str
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)

FACTORS = ("stream", "agent", "networks")
"""The parts of an experiment that have fields of their own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A base optimizer, and the reset method around it.

    Options of the reset method are checked by `studies.methods.check`, which knows its class.
    """

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
        if self.reset is None and self.options:
            raise StudyError(
                f"Options {', '.join(self.options)} without a reset method: set `reset`."
            )

    def override(self, **changes: Any) -> Self:
        """With other values; names that are not fields are options, None takes an option away."""
        own = {n: changes.pop(n) for n in fields_of(type(self)) if n in changes}
        if changes and own.get("reset", self.reset) is None:
            raise unknown("field", next(iter(changes)), fields_of(type(self)))
        options = {**own.get("options", self.options), **changes}
        own["options"] = {n: v for n, v in options.items() if v is not None}
        return dataclasses.replace(self, **own)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """A stream of tasks, who learns from it with what networks, and the methods to compare.

    `experiment.at_scale("smoke")` is the same experiment with a smaller budget; "paper" is the
    experiment as it is. `experiment.override(tasks=10, discount=0.9, **{"cpr.max_reset": 0.02})`
    changes anything: fields of the stream, the agent and the networks go by their own name, or,
    where two of them have the same, as in `agent.probe`.
    """

    name: str = field(help="name of the experiment")
    title: str = field(help="what it is, in a line")
    tasks: int = field(
        budget=True, positive=True, most=bounds.COUNT, help="number of tasks, one after the other"
    )
    seeds: int = field(5, budget=True, positive=True, most=bounds.COUNT, help="number of seeds")
    stream: Stream = field(help="what changes from task to task")
    agent: Agent = field(help="who learns")
    networks: Networks = field(help="with what networks")
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
    collapse: CollapseRule | None = field(
        None, help="watch for collapse, and end methods in which seeds have collapsed"
    )

    def __post_init__(self):
        check_fields(self)
        _check_name("name", self.name)
        for name in FACTORS:
            if not isinstance(getattr(self, name), fields_of(type(self))[name].type):
                kind = fields_of(type(self))[name].type.__name__
                raise StudyError(
                    f"{name} must be a {kind}, got {bounds.shown(getattr(self, name))}."
                )
        object.__setattr__(self, "methods", _table("methods", self.methods))
        if not self.methods:
            raise StudyError("methods must name at least one method.")
        for name, method in self.methods.items():
            _check_name("the name of a method", name)
            if name in FACTORS:
                raise StudyError(f"{name} is no name of a method: it is a part of an experiment.")
            if not isinstance(method, MethodSpec):
                raise StudyError(f"methods.{name} must be a MethodSpec, got {method!r}.")
        object.__setattr__(self, "lanes", self._checked_lanes())
        self.agent.check_stream(self.stream)
        if not 0 <= self.steps <= bounds.INTEGERS:
            raise StudyError(
                f"The {self.tasks} tasks have {bounds.shown(self.steps)} steps, which are counted "
                f"to {bounds.INTEGERS:,}: take fewer tasks, or make them shorter."
            )
        self._check_bins()
        scales = _table("scales", self.scales)
        scales = {name: self._checked_scale(name, scales[name]) for name in scales}
        object.__setattr__(self, "scales", scales)

    # What it comes to --------------------------------------------------------------------------

    @property
    def steps_per_task(self) -> int:
        """Steps of a seed per task, as its rows count them."""
        return self.agent.steps_per_task(self.stream)

    @property
    def steps(self) -> int:
        """Steps of a seed in all tasks: the last one of a finished run."""
        return self.tasks * self.steps_per_task

    @property
    def step_unit(self) -> str:
        """What a step is, in words."""
        return self.agent.step_unit

    @property
    def task_names(self) -> list[str]:
        """The name of each task in turn; [] where tasks have no names."""
        return self.stream.task_names(self.tasks)

    @property
    def headline(self) -> str:
        """The column that says how well a method does."""
        return self.agent.headline(self.stream)

    @property
    def bin_width(self) -> int | None:
        """Steps of a bin in tables and figures; None for the rows as they are."""
        return self.agent.bin_width(self.stream, self.tasks)

    @property
    def points(self) -> int:
        """Combinations of the values of `lanes`, each of which runs with every seed."""
        return math.prod(map(len, self.lanes.values()))

    # Fields by name ----------------------------------------------------------------------------

    def fields(self) -> dict[str, Field]:
        """Return {name: field} of its own and of its parts.

        A field of a part goes by its own name or, where that is taken, by `PART.NAME`.
        """
        found = {n: f for n, f in fields_of(type(self)).items() if not f.is_factor}
        parts = {part: fields_of(type(getattr(self, part))) for part in FACTORS}
        names = [*found, *(name for fields in parts.values() for name in fields)]
        for part, fields in parts.items():
            for name, each in fields.items():
                alone = names.count(name) == 1 and name not in FACTORS
                found[name if alone else f"{part}.{name}"] = each
        return found

    def field(self, name: str) -> Field:
        """Return one of `fields`, also as `PART.NAME`."""
        part, field = self._place(name)
        return fields_of(type(self if part is None else getattr(self, part)))[field]

    def value(self, name: str) -> Any:
        """Return the value of one of `fields`, also as `PART.NAME`."""
        part, field = self._place(name)
        return getattr(self if part is None else getattr(self, part), field)

    def part_of(self, name: str) -> str | None:
        """Return the part that one of `fields` is of; None for its own."""
        return self._place(name)[0]

    def _place(self, name: str) -> tuple[str | None, str]:
        """Return the part of a field, None for its own, and its name there."""
        part, dot, rest = name.partition(".")
        if dot and part in FACTORS and rest in fields_of(type(getattr(self, part))):
            return part, rest
        known = self.fields()
        if name not in known:
            raise unknown(f"field of {self.name}", name, known)
        if name in fields_of(type(self)):
            return None, name
        return next(
            (part, name) for part in FACTORS if name in fields_of(type(getattr(self, part)))
        )

    # Others like it ----------------------------------------------------------------------------

    def at_scale(self, scale: str) -> Self:
        """Return the experiment with the budget of a scale: "paper", or one of `scales`.

        An entry `RESET.OPTION` of a scale is for every method with that reset method.
        """
        if scale != "paper" and scale not in self.scales:
            raise unknown("scale", scale, ["paper", *self.scales])
        known, values = self.fields(), self.scales.get(scale, {})
        options = {name: value for name, value in values.items() if name not in known}
        methods = {}
        for name, method in self.methods.items():
            own = f"{method.reset}."
            mine = {n.removeprefix(own): v for n, v in options.items() if n.startswith(own)}
            with located(f"scales.{scale}: methods.{name}"):
                methods[name] = method.override(**mine) if mine else method
        fields = {name: value for name, value in values.items() if name in known}
        return self.override(methods=methods, **fields)

    def override(self, **changes: Any) -> Self:
        """Return it with other values, by name: `tasks`, `agent.discount`, `cpr.max_reset`.

        The name of a part stands for the whole of it.
        """
        own: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        of_methods: dict[str, Any] = {}
        for name, value in changes.items():
            first, dot, _ = name.partition(".")
            if name in FACTORS and isinstance(value, Factor):
                own[name] = value
            elif dot and first not in FACTORS:
                of_methods[name] = value
            elif name not in FACTORS:
                part, field = self._place(name)
                (own if part is None else parts.setdefault(part, {}))[field] = value
            else:
                raise StudyError(f"{name} must be a part of an experiment, got {value!r}.")
        for part, values in parts.items():
            own[part] = dataclasses.replace(own.get(part, getattr(self, part)), **values)
        changed = dataclasses.replace(self, **own)
        options: dict[str, dict[str, Any]] = {}
        for name, value in of_methods.items():
            method, option = changed.method_field(name)
            options.setdefault(method, {})[option] = value
        if not options:
            return changed
        methods = dict(changed.methods)
        for method, values in options.items():
            with located(f"methods.{method}"):
                methods[method] = methods[method].override(**values)
        return dataclasses.replace(changed, methods=methods)

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
        more = {name: dataclasses.replace(base, reset=name, options={}) for name in added}
        return dataclasses.replace(self, methods={**self.methods, **more})

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

    # Checks ------------------------------------------------------------------------------------

    def _check_bins(self) -> None:
        rule = self.collapse
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
        return {name: tuple(values) for name, values in lanes.items()}

    def _checked_scale(self, scale: str, values: Any) -> dict[str, Any]:
        _check_name("the name of a scale", scale)
        if scale == "paper":
            raise StudyError("scales: 'paper' is the spec as it is, and takes no values.")
        values, known = _table(f"scales.{scale}", values), self.fields()
        budget = [name for name in known if known[name].budget]
        found: dict[str, Any] = {}
        for name, value in values.items():
            if name in known and name not in budget:
                raise StudyError(
                    f"scales.{scale}: {name} is no part of the budget. "
                    f"A scale may change: {', '.join(budget)}."
                )
            if name not in known and "." not in name:
                raise unknown(f"field in scales.{scale}", name, budget)
            if value is None:
                raise StudyError(f"scales.{scale}: {name} needs a value; leave it out instead.")
            with located(f"scales.{scale}"):
                if name in known:
                    found[name] = known[name].check(value)
                    continue
                if type(value) not in (bool, int, float, str) or len(name.split(".")) != 2:
                    raise StudyError(
                        f"write RESET.OPTION and its value, such as cpr.every and 10; got {name!r} "
                        f"and {value!r}."
                    )
                found[name] = value
        return found


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
