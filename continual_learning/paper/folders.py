"""The description of a study in its folder, also of a study in parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from continual_learning.jobs import tree
from continual_learning.paper.artifacts import Study
from continual_learning.paper.values import value
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry, spec
from continual_learning.studies.experiment import FACTORS, Experiment, located
from continual_learning.studies.folder import open_study
from continual_learning.studies.store import manifest

_APART = ("name", "title", "seeds", "methods", "scales", "lanes", "data_folder")


@dataclasses.dataclass(frozen=True)
class Folder:
    """The description of a study in its folder.

    Attributes:
      path: the folder as given.
      spec: its experiment.
      methods: the methods that it runs.
      seeds: the seeds that it runs, without repetitions.
      parts: the folders that it is divided into, or the folder itself if it is not divided.
    """

    path: Path
    spec: Experiment
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    parts: tuple[Path, ...]

    @classmethod
    def read(cls, path: str | Path) -> Folder:
        """Return the folder that study.toml describes."""
        path = Path(path)
        study = open_study(path).table
        with located(str(path)):
            if not isinstance(study.get("experiment"), Mapping):
                raise StudyError("its study.toml does not name its experiment.")
            experiment = spec.from_dict(study["experiment"])
            methods, seeds = _list(study, "methods", str), _list(study, "seeds", int)
        return cls(path, experiment, methods, tuple(dict.fromkeys(seeds)), (path,))

    def check_same(
        self, experiment: Experiment, methods: Iterable[str], seeds: Iterable[int]
    ) -> None:
        """Raise a StoreError that lists the differences, unless the folder is of just these.

        Args:
          experiment: the expected experiment.
          methods: the expected methods.
          seeds: the expected seeds.
        """
        asked, here = (
            {"experiment": spec.to_dict(e), "methods": sorted(m), "seeds": sorted(s)}
            for e, m, s in (
                (experiment, methods, seeds),
                (self.spec, self.methods, self.seeds),
            )
        )
        manifest.check_same(self.path, manifest.plain(here), asked)

    def unusual(self) -> dict[str, tuple[Any, Any]]:
        """Return {field: (here, usually)} of differences from the experiment of this name.

        The budget does not count, but options of the methods that are run do. A scale may have
        options of its own, so the folder is compared with the scale that is most similar. A part of
        another kind is one difference, and there are none if no experiment of this name is known.
        """
        if self.spec.name not in (*registry.names(), *registry.ablations()):
            return {}
        usual = registry.get(self.spec.name)
        pairs = {part: (getattr(self.spec, part), getattr(usual, part)) for part in FACTORS}
        if others := {p: (a.kind, b.kind) for p, (a, b) in pairs.items() if a.kind != b.kind}:
            return others
        scales = [usual.at_scale(scale) for scale in ("paper", *usual.scales)]
        return min(map(self._unlike, scales), key=len)

    def _unlike(self, usual: Experiment) -> dict[str, tuple[Any, Any]]:
        known = self.spec.fields()
        methods = [method for method in self.methods if method in usual.methods]
        names = [
            name
            for name in differences(self.spec, usual, methods)
            if name not in known or not known[name].budget
        ]
        both = {name: (value(self.spec, name), value(usual, name)) for name in names}
        return {name: (here, there) for name, (here, there) in both.items() if here != there}


def differences(a: Experiment, b: Experiment, methods: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Return {field: (a's, b's)} of fields that differ, and `METHOD.OPTION` of these methods.

    Args:
      a: an experiment.
      b: another experiment.
      methods: the methods whose options are compared.
    """

    def flat(each: Experiment) -> dict[str, Any]:
        table = spec.to_dict(each)["methods"]
        values = {name: each.value(name) for name in each.fields() if name not in _APART}
        found = {name: value for name, value in values.items() if value is not None}
        found |= {part: getattr(each, part).kind for part in FACTORS}
        for method in methods:
            chosen = dict(table.get(method, {}))
            options = chosen.pop("options", {})
            found |= {f"{method}.{name}": v for name, v in {**chosen, **options}.items()}
        return found

    here, there = flat(a), flat(b)
    names = list(here) + [name for name in there if name not in here]
    return {n: (here.get(n), there.get(n)) for n in names if here.get(n) != there.get(n)}


def holds(folder: Folder, study: Study) -> bool:
    """Return whether a folder has a study with these methods and changes, at any scale.

    Other fields of the experiment may have values of their own, but options of methods may not.
    """
    if folder.spec.name != study.experiment or not set(study.methods) <= set(folder.methods):
        return False
    if any(value(folder.spec, name) != wanted for name, wanted in study.changes.items()):
        return False
    options = [name for name in folder.unusual() if name.partition(".")[0] in study.methods]
    return all(name in study.changes for name in options)


def whole(path: str | Path) -> list[Folder]:
    """Return the studies of a folder: its own, or those that its parts form together.

    Parts are jobs, also those that have not begun, or studies in folders of their own. Parts with
    the same settings form one study, whatever their methods and seeds are.
    """
    path, together = Path(path), []
    for part in _parts(path):
        for group in together:
            other = group[0]
            if other.spec.name == part.spec.name and not differences(
                other.spec, part.spec, {*other.methods, *part.methods}
            ):
                group.append(part)
                break
        else:
            together.append([part])
    return [_joined(path, group) for group in together]


def _parts(path: Path) -> list[Folder]:
    if tree.is_tree(path):
        jobs = tree.read(path)
        return [
            Folder(place, s.experiment, tuple(s.methods), tuple(dict.fromkeys(s.seeds)), (place,))
            for place, s in ((jobs.folder(name), job.study) for name, job in jobs.jobs.items())
        ]
    inside = sorted(path.iterdir()) if path.is_dir() else []
    found = [each for each in inside if tree.is_tree(each) or manifest.is_study(each)]
    if found and not manifest.is_study(path):
        return [part for each in found for part in _parts(each)]
    return [Folder.read(path)]


def _joined(path: Path, group: Sequence[Folder]) -> Folder:
    """Return the parts of one study as one folder."""
    if len(group) == 1:
        return group[0]
    methods = dict.fromkeys(method for part in group for method in part.methods)
    seeds = dict.fromkeys(seed for part in group for seed in part.seeds)
    parts = tuple(part.path for part in group)
    return Folder(path, group[0].spec, tuple(methods), tuple(sorted(seeds)), parts)


def _list(study: Mapping[str, Any], name: str, kind: type) -> tuple[Any, ...]:
    values = study.get(name)
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise StudyError(f"its study.toml does not list the {name}.")
    return tuple(values)
