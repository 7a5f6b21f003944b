"""Reads experiments of earlier versions, which wrote flat tables of four kinds, without parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.agents.sac.config import SACConfig
from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.envs.catalog.dataset import DatasetTasks
from continual_learning.envs.catalog.gymnasium import GymnasiumTasks
from continual_learning.envs.catalog.metaworld import MetaWorldTasks
from continual_learning.envs.catalog.minatar import MinAtarTasks
from continual_learning.envs.catalog.robot import RobotTasks
from continual_learning.networks.catalog import ActorCriticMLPs, CNNs, MLPs
from continual_learning.schema.errors import unknown
from continual_learning.schema.fields import Factor, fields_of
from continual_learning.studies.experiment import FACTORS, Experiment


class _Kind(NamedTuple):
    """A kind of experiment.

    Attributes:
      parts: the classes of its stream, agent and networks.
      defaults: the values that a table left out and that have other defaults now.
    """

    parts: tuple[type[Factor], type[Factor], type[Factor]]
    defaults: Mapping[str, Any]


_KINDS = {
    "supervised": _Kind(
        (DatasetTasks, ClassifierConfig, MLPs), {"hidden": [128, 128], "init": "he_uniform"}
    ),
    "control": _Kind((RobotTasks, PPOConfig, ActorCriticMLPs), {}),
    "games": _Kind(
        (MinAtarTasks, SACConfig, CNNs),
        {
            "environments": 12,
            "vector_steps_per_task": 125_000,
            "steps_per_row": 1000,
            "rows_per_chunk": 5,
        },
    ),
    "host": _Kind((MetaWorldTasks, SACConfig, MLPs), {}),
}
_ONLY_METAWORLD = ("goal", "goals", "one_hot", "episode_length")


def is_flat(data: Mapping[str, Any]) -> bool:
    """Return whether an earlier version wrote a table, which then has a kind of its own."""
    return "kind" in data


def in_parts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment with its parts as tables of their own.

    A name that belongs to no part stays where it is, so that the reader raises an error about it.
    """
    if not isinstance(data["kind"], str) or data["kind"] not in _KINDS:
        raise unknown("kind", data["kind"], _KINDS)
    kind = _KINDS[data["kind"]]
    flat = {**kind.defaults, **{name: value for name, value in data.items() if name != "kind"}}
    stream, agent, networks = kind.parts
    if stream is DatasetTasks and "stream" in flat:
        flat["change"] = flat.pop("stream")
    if stream is MetaWorldTasks and flat.pop("suite", "metaworld") == "gymnasium":
        stream = GymnasiumTasks
        usual = {"goal": "shown", "goals": "fresh", "one_hot": False}
        flat = {n: v for n, v in flat.items() if n not in _ONLY_METAWORLD or v != usual.get(n)}
    found: dict[str, Any] = {}
    parts = dict(zip(FACTORS, (stream, agent, networks), strict=True))
    for name, part in parts.items():
        own = {n: flat.pop(n) for n in fields_of(part) if n in flat and n not in _OWN}
        found[name] = {"kind": part.kind, **own}
    return {**flat, **found}


_OWN = frozenset(fields_of(Experiment))
"""The names that belong to the experiment, even if a part has a field of the same name."""
