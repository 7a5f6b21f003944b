"""The programs that run configurations: numbers become lanes, all other settings are static."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Sequence

from continual_learning.schema.errors import unknown
from continual_learning.studies import build
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.methods import check_method
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.studies.store.parts import INDEX
from continual_learning.studies.study import Study
from continual_learning.studies.watch import COLUMN
from continual_learning.sweeps.grid import Configuration, Grid, apply
from continual_learning.sweeps.settings import check, settings


def programs(
    experiment: Experiment,
    method: str,
    configurations: Sequence[Configuration],
    seeds: Sequence[int],
) -> list[Study]:
    """Return a study for every combination of static settings.

    A study has a lane per configuration and seed. Every configuration is checked, so that a wrong
    one raises an error before anything runs. A setting with numbers and other values
    (`max_reset_fraction=none,0.02`) is static where it is none, and a lane's number elsewhere.

    Args:
      experiment: the experiment, with all that is the same in all configurations.
      method: the method of the settings.
      configurations: configurations with the same names.
      seeds: the seeds of every configuration.
    """
    known = settings(experiment, method)
    groups: dict[str, tuple[Configuration, list[Configuration]]] = {}
    for configuration in configurations:
        for name in configuration:
            check(known, method, name)
        check_method(apply(experiment, method, configuration), method)
        lane = {n: v for n, v in configuration.items() if known[n].is_lane(v)}
        static = {n: v for n, v in configuration.items() if n not in lane}
        groups.setdefault(repr(static), (static, []))[1].append(lane)
    return [_study(experiment, method, *group, seeds) for group in groups.values()]


def check_values(experiment: Experiment, method: str, grid: Grid) -> None:
    """Raise an error if a value of a grid is not valid, whatever the others are.

    Args:
      experiment: the experiment.
      method: the method of the settings.
      grid: the grid.
    """
    known = settings(experiment, method)
    for name, values in grid.values.items():
        check(known, method, name)
        for value in values:
            check_method(apply(experiment, method, {name: value}), method)


def check_metric(study: Study, metric: str | None) -> None:
    """Raise an error unless the rows of a study will have this metric, without running anything.

    Args:
      study: a study with one method.
      metric: the name of the metric; None needs no check.
    """
    if metric is None:
        return
    part, [method] = lanes_of(study, 0, 1), study.methods
    trainer = build.trainer(study.experiment, method, build.data(study.experiment))
    with contextlib.closing(program_of(trainer, Lanes(part.seeds, part.arrays()))) as program:
        watched = [] if study.experiment.collapse is None else [COLUMN]
        valid = sorted({*program.columns, *watched} - {*INDEX})
    if metric not in valid:
        raise unknown("metric", metric, valid)


def lanes_of(study: Study, first: int, end: int) -> Study:
    """Return the study of a range of its lanes.

    Args:
      study: the study.
      first: the first lane.
      end: the lane after the last one.
    """
    hyper = {name: values[first:end] for name, values in study.hyper.items()}
    return dataclasses.replace(study, seeds=study.seeds[first:end], hyper=hyper)


def divide(study: Study, size: int) -> list[Study]:
    """Return as few blocks as possible of at most `size` lanes, whose sizes differ by 0 or 1."""
    count = -(-study.lanes // size)
    ends = [study.lanes * k // count for k in range(count + 1)]
    return [lanes_of(study, *pair) for pair in itertools.pairwise(ends)]


def _study(
    experiment: Experiment,
    method: str,
    static: Configuration,
    lanes: list[Configuration],
    seeds: Sequence[int],
) -> Study:
    hyper = {name: [lane[name] for lane in lanes for _ in seeds] for name in lanes[0]}
    return Study(apply(experiment, method, static), [method], [*seeds] * len(lanes), hyper)  # pyright: ignore[reportArgumentType]
