"""Every table and figure of the paper by id, and the studies from which it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies import registry
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.presets.ablations import SHAPES, rollout_changes

METHODS = ("cpr", "cbp", "redo", "regrama", "shrink_perturb", "adam")
"""The methods of the paper, in the order of its tables."""


@dataclasses.dataclass(frozen=True)
class Study:
    """A study that an artifact needs.

    Attributes:
      experiment: the name of its experiment.
      methods: the methods that are shown.
      changes: {name: value} of the fields that differ from the experiment's.
    """

    experiment: str
    methods: tuple[str, ...] = METHODS
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The name of the study's folder."""
        more = (f"{name.split('.')[-1]}_{setting(value)}" for name, value in self.changes.items())
        return "_".join([self.experiment, *more])

    def __str__(self) -> str:
        more = [f"{name}={setting(value)}" for name, value in self.changes.items()]
        return f"{self.experiment} ({', '.join(more)})" if more else self.experiment

    def spec(self, scale: str = "paper") -> Experiment:
        """Return the experiment to run, with its changes and all that depends on them."""
        chosen, changes = registry.get(self.experiment).at_scale(scale), dict(self.changes)
        if "rollout" in changes:
            changes |= rollout_changes(chosen, changes["rollout"])
        return chosen.override(**changes)

    def values(self, field: str) -> tuple[Any, ...]:
        """Return the values of a field that the study changes, or in which its lanes differ."""
        if field in self.changes:
            return (self.changes[field],)
        numbers = self.spec().lanes[field.split(".")[-1]]
        return tuple(lane_value(field, number) for number in numbers)


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A table or a figure.

    Attributes:
      id: our name for it.
      kind: "table" or "figure".
      title: what it shows.
      label: its LaTeX label in the paper; None if it is ours.
      studies: the studies from which it is made; none if specs or formulas are enough.
      varied: the field in which its studies, or their lanes, differ, if any.
      timed: the experiment whose methods must be timed, if any.
      returns: the column of returns that is shown; None for the first of `RETURNS` in the table.
      any_study: whether it is not in the paper and can be made from studies of any experiment.
    """

    id: str
    kind: Literal["table", "figure"]
    title: str
    label: str | None
    studies: tuple[Study, ...] = ()
    varied: str | None = None
    timed: str | None = None
    returns: str | None = None
    any_study: bool = False

    @property
    def experiments(self) -> list[str]:
        """The names of the experiments, without repetition."""
        return list(dict.fromkeys(study.experiment for study in self.studies))

    def check_folders(self, folders: Sequence[Any]) -> None:
        """Raise a StudyError if folders are given but not needed, or needed but not given."""
        if self.timed and len(folders) != 1:
            raise StudyError(
                f"{self.id} needs one file of `continual bench methods {self.timed} --out "
                f"FILE.json`; `continual reproduce {self.id} --out DIR` makes one."
            )
        if self.any_study and not folders:
            raise StudyError(f"{self.id} needs the folder of a study, or several of an experiment.")
        if self.timed or self.any_study:
            return
        if folders and not self.studies:
            raise StudyError(f"{self.id} needs no study: leave out {folders[0]}.")
        if self.studies and not folders:
            needed = " and ".join(self.experiments)
            raise StudyError(
                f"{self.id} needs the folder of a study of {needed}; "
                f"`continual reproduce {self.id} --out DIR` runs what it needs."
            )


def get(id: str, kind: str | None = None) -> Artifact:
    """Return the table or figure with that id; raise a StudyError that lists the known ids.

    Those that can be made from any study are found only if their kind is given.
    """
    known = ARTIFACTS if kind is None else ARTIFACTS | GENERAL
    found = known.get(id)
    if found is None:
        valid = [a.id for a in known.values() if kind in (None, a.kind)]
        raise unknown(kind or "table or figure", id, valid)
    if kind not in (None, found.kind):
        raise StudyError(f"{id} is a {found.kind}: `continual {found.kind} {id}` makes it.")
    return found


def register(artifact: Artifact) -> None:
    """Add a table or figure of a user, which can be made from any study."""
    if artifact.id in ARTIFACTS or artifact.id in _OURS:
        raise StudyError(f"{artifact.id} is ours: choose another id.")
    GENERAL[artifact.id] = artifact


def of_kind(kind: str) -> list[Artifact]:
    """Return all tables or all figures."""
    return [each for each in (ARTIFACTS | GENERAL).values() if each.kind == kind]


def setting(value: Any) -> str:
    """Return a setting as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def lane_value(field: str, number: Any) -> Any:
    """Return the value of a field for which a lane's number stands: the name of a shape."""
    named = field.endswith(".shape") and not isinstance(number, str)
    return SHAPES[int(number)] if named else number


def _varied(
    experiment: str, methods: tuple[str, ...], field: str, values: Iterable[Any]
) -> dict[str, Any]:
    studies = tuple(Study(experiment, methods, {field: value}) for value in values)
    return {"studies": studies, "varied": field}


_ANT = (Study("slippery_ant"),)
_HUMANOID = (Study("slippery_humanoid"),)
_BOTH = _ANT + _HUMANOID
_METAWORLD = (Study("continual_metaworld", (*METHODS[:-1], "muon", "adam")),)
_MINATAR = (Study("continual_minatar"),)
_SINGLE_TASKS = _varied(
    "mt1", METHODS, "sequence", ((task,) for task in registry.get("continual_metaworld").task_names)
)
# The paper does not print the size of its larger rollouts, so we chose these. With them, a task has
# exactly as many steps as usual.
_ROLLOUTS = _varied("slippery_ant", ("adam",), "rollout", (96, 288, 576))


def _lanes(experiment: str, field: str) -> dict[str, Any]:
    """Return the fields of an ablation of CPR whose values are lanes."""
    return {"studies": (Study(experiment, ("cpr",)),), "varied": f"cpr.{field}"}


def _table(id: str, title: str, label: str | None = "", **more: Any) -> Artifact:
    return Artifact(id, "table", title, f"tab:{id}" if label == "" else label, **more)


def _figure(id: str, title: str, label: str | None = "", **more: Any) -> Artifact:
    return Artifact(id, "figure", title, f"fig:{id}" if label == "" else label, **more)


_ALL = (
    _table("ant_iqr", "SlipperyAnt: average, final and peak return", studies=_ANT),
    _table("hum_iqr", "SlipperyHumanoid: average, final and peak return", studies=_HUMANOID),
    _table(
        "continual_metaworld",
        "Continual MetaWorld: average and final performance",
        studies=_METAWORLD,
    ),
    _table(
        "continual_minatar",
        "Continual MinAtar: average and final return",
        studies=_MINATAR,
    ),
    _table(
        "transform_perf",
        "CPR with other shapes of φ on SlipperyAnt",
        **_lanes("slippery_ant_shape", "shape"),
    ),
    _table(
        "runtime",
        "Wall time of training on SlipperyHumanoid",
        timed="slippery_humanoid",
    ),
    _table("ppo_hyperparameters", "PPO's hyper-parameters"),
    _table("network_architecture", "PPO's networks"),
    _table("hyper_sweep", "Reset methods on SlipperyAnt and SlipperyHumanoid: values"),
    _table("cmw_sac_params", "SAC's hyper-parameters on Continual MetaWorld"),
    _table("mt1_reset_params", "Reset methods on MetaWorld MT1: values"),
    _table("minatar_reset_params", "Reset methods on Continual MinAtar: values"),
    _table("cmw_reset_params", "Reset methods on Continual MetaWorld: values"),
    _table(
        "mt1_success",
        "Ten single tasks of MetaWorld MT1: success at the end (ours)",
        label=None,
        **_SINGLE_TASKS,
    ),
    _table(
        "cmw_forgetting",
        "Continual MetaWorld: what was learned, and what is left of it (ours)",
        label=None,
        studies=_METAWORLD,
    ),
    _table(
        "minatar_forgetting",
        "Continual MinAtar: what was learned, and what is left of it (ours)",
        label=None,
        studies=_MINATAR,
    ),
    _table(
        "mnist_shape_kappa",
        "Permuted MNIST: CPR's shape φ and sharpness κ (ours)",
        label=None,
        **_lanes("permuted_mnist_shape_kappa", "shape"),
    ),
    _figure("flagship", "SlipperyAnt: peak and final return, seeds that collapsed", studies=_ANT),
    _figure("ant_humanoid_main", "Return on SlipperyAnt and SlipperyHumanoid", studies=_BOTH),
    _figure("dormant_linearized", "SlipperyAnt: dormant and linearized units", studies=_ANT),
    _figure("grad_norm", "SlipperyAnt: norm of the policy's gradient", studies=_ANT),
    _figure(
        "individual_network_grad_norm",
        "SlipperyAnt: norm of the value network's gradient",
        label="fig:infividual_network_grad_norm",  # as the paper spells it
        studies=_ANT,
    ),
    _figure("humanoid_grad_norm", "SlipperyHumanoid: norms of both gradients", studies=_HUMANOID),
    _figure("param_norm", "Norm of the parameters, mean of both networks", studies=_BOTH),
    _figure(
        "rr", "CPR's largest reset ρ on SlipperyAnt", **_lanes("slippery_ant_rho", "max_reset")
    ),
    _figure("metaworld_grid_2x5", "Ten single tasks of MetaWorld MT1: return", **_SINGLE_TASKS),
    _figure("perm_mnist", "Permuted MNIST: test accuracy", studies=(Study("permuted_mnist"),)),
    _figure("bigrollout", "Adam with larger rollouts on SlipperyAnt: return", **_ROLLOUTS),
    _figure("big_dormant", "Adam with larger rollouts: dormant units", **_ROLLOUTS),
    _figure("big_linear", "Adam with larger rollouts: linearized units", **_ROLLOUTS),
    _figure("util_comp", "Shapes φ of CPR's reset"),
    _figure(
        "util_dist",
        "SlipperyAnt: utilities of units, with CPR and without resets",
        studies=(Study("slippery_ant", ("cpr", "adam")),),
    ),
    _figure(
        "sharpness_ablation",
        "CPR's sharpness κ on SlipperyAnt",
        **_lanes("slippery_ant_kappa", "sharpness"),
    ),
    _figure(
        "humanoid_rr",
        "CPR's largest reset ρ on SlipperyHumanoid (ours)",
        label=None,
        **_lanes("slippery_humanoid_rho", "max_reset"),
    ),
    _figure(
        "mnist_sharpness",
        "CPR's sharpness κ on Permuted MNIST (ours)",
        label=None,
        **_lanes("permuted_mnist_kappa", "sharpness"),
    ),
    _figure(
        "mnist_shapes",
        "CPR's shape φ and sharpness κ on Permuted MNIST (ours)",
        label=None,
        **_lanes("permuted_mnist_shape_kappa", "shape"),
    ),
    _figure("humanoid_peak_vs_final", "SlipperyHumanoid: peak and final", studies=_HUMANOID),
    _figure(
        "collapse_thresholds",
        "SlipperyAnt: seeds that collapsed, by the drop that counts as one (ours)",
        label=None,
        studies=_ANT,
    ),
)
ARTIFACTS: dict[str, Artifact] = {artifact.id: artifact for artifact in _ALL}
"""Those of the paper, and ours beside them."""

GENERAL: dict[str, Artifact] = {
    artifact.id: artifact
    for artifact in (
        _table("methods", "Average, final and peak performance (ours)", label=None, any_study=True),
        _figure("curves", "How well each method does over training (ours)", None, any_study=True),
    )
}
"""Those of any study, of your own experiments too, and those that users register."""

_OURS = frozenset(GENERAL)
