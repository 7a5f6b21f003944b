"""The description of an experiment: a stream of tasks, an agent, networks, methods, a budget.

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

    `studies.methods.check` checks the optimizer and the options of the reset method, because it
    imports both.
    """

    optimizer: str = field(
        "adam",
        help="base optimizer: adam, adamw, muon, any other of optax (sgd, lion), any of "
        "optax.contrib (contrib.prodigy), kron or soap",
    )
    learning_rate: float = field(1e-3, positive=True, help="learning rate of the base optimizer")
    eps_root: float | None = field(
        None,
        positive=True,
        help="constant that Adam, optimizers like it and Muon's Adam part add to the second moment "
        "under the root",
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
                f"Options {', '.join(self.options)} are set without a reset method: set `reset`."
            )

    def override(self, **changes: Any) -> Self:
        """Return the method with other values. Other names are options; None removes an option."""
        own = {n: changes.pop(n) for n in fields_of(type(self)) if n in changes}
        if changes and own.get("reset", self.reset) is None:
            raise unknown("field", next(iter(changes)), fields_of(type(self)))
        options = {**own.get("options", self.options), **changes}
        own["options"] = {n: v for n, v in options.items() if v is not None}
        return dataclasses.replace(self, **own)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """A stream of tasks, the agent and its networks that learn from it, and methods to compare.

    `experiment.at_scale("smoke")` is the same experiment with a smaller budget; "paper" is the
    experiment as it is. `experiment.override(tasks=10, discount=0.9, **{"cpr.max_reset": 0.02})`
    changes any field. A field of the stream, the agent or the networks has its own name or, if two
    of them share a name, a name such as `agent.probe`.
    """

    name: str = field(help="name of the experiment")
    title: str = field(help="description of the experiment in one line")
    tasks: int = field(
        budget=True, positive=True, most=bounds.COUNT, help="number of tasks, one after the other"
    )
    seeds: int = field(5, budget=True, positive=True, most=bounds.COUNT, help="number of seeds")
    stream: Stream = field(help="stream of tasks")
    agent: Agent = field(help="agent that learns")
    networks: Networks = field(help="networks of the agent")
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
        help="quick: on a CPU, less time is spent on optimizing programs, which then run more "
        "slowly; this pays if they run briefly",
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
                raise StudyError(
                    f"{name} cannot be the name of a method: it is a part of an experiment."
                )
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

    # Derived values ----------------------------------------------------------------------------

    @property
    def steps_per_task(self) -> int:
        """The steps of a seed per task, as the rows count them."""
        return self.agent.steps_per_task(self.stream)

    @property
    def steps(self) -> int:
        """The steps of a seed in all tasks, which are the last step of a finished run."""
        return self.tasks * self.steps_per_task

    @property
    def step_unit(self) -> str:
        """The unit of a step, in words."""
        return self.agent.step_unit

    @property
    def task_names(self) -> list[str]:
        """The names of the tasks in turn, or [] if they have no names."""
        return self.stream.task_names(self.tasks)

    @property
    def headline(self) -> str:
        """The column that measures how well a method does."""
        return self.agent.headline(self.stream)

    @property
    def bin_width(self) -> int | None:
        """The steps of a bin in tables and figures, or None for the rows as they are."""
        return self.agent.bin_width(self.stream, self.tasks)

    @property
    def points(self) -> int:
        """The number of combinations of the values of `lanes`; every seed runs all of them."""
        return math.prod(map(len, self.lanes.values()))

    # Fields by name ----------------------------------------------------------------------------

    def fields(self) -> dict[str, Field]:
        """Return {name: field} of the experiment and of its parts.

        A field of a part has its own name or, if that is taken, the name `PART.NAME`.
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
        """Return the field of a name of `fields` or of a name `PART.NAME`."""
        part, field = self._place(name)
        return fields_of(type(self if part is None else getattr(self, part)))[field]

    def value(self, name: str) -> Any:
        """Return the value of a field by its name in `fields` or by `PART.NAME`."""
        part, field = self._place(name)
        return getattr(self if part is None else getattr(self, part), field)

    def part_of(self, name: str) -> str | None:
        """Return the part that a field belongs to, or None for the experiment itself."""
        return self._place(name)[0]

    def _place(self, name: str) -> tuple[str | None, str]:
        """Return the part of a field, or None for the experiment itself, and its name there."""
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

    # Changed copies ----------------------------------------------------------------------------

    def at_scale(self, scale: str) -> Self:
        """Return the experiment with the budget of a scale: "paper", or one of `scales`.

        An entry `RESET.OPTION` of a scale applies to every method with that reset method.
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
        """Return the experiment with other values of `tasks`, `agent.discount`, `cpr.max_reset`, ….

        The name of a part takes a whole part as its value.
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

        An added method is the reset method of that name with its defaults, around the base
        optimizer of the first method without a reset, or else of the first method.
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
        """Return ("cpr", "max_reset") for `cpr.max_reset` or `methods.cpr.options.max_reset`."""
        parts = path.split(".")
        parts = parts[1:] if parts[0] == "methods" else parts
        if len(parts) == 3 and parts[1] == "options":
            del parts[1]
        if len(parts) != 2:
            raise StudyError(
                f"{path!r} is not a field. Write METHOD.OPTION, such as cpr.max_reset."
            )
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
                    f"scales.{scale}: {name} is not part of the budget. "
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
    """Return a copy of a mapping; raise a StudyError unless its keys are names."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise StudyError(f"{name} must be a table of names and values, got {bounds.shown(value)}.")
    return dict(value)


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > bounds.LETTERS:
        raise StudyError(
            f"{what} must be letters, digits and underscores, at most {bounds.LETTERS}, got "
            f"{bounds.shown(name)}."
        )
