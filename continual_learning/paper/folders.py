"""What the folder of a study says of itself, also of a study in parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from continual_learning.jobs import tree
from continual_learning.paper.artefacts import Study
from continual_learning.paper.values import value
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry, spec
from continual_learning.studies.experiment import FACTORS, Experiment, located
from continual_learning.studies.store import manifest

_APART = ("name", "title", "seeds", "methods", "scales", "lanes", "data_folder")


@dataclasses.dataclass(frozen=True)
class Folder:
    """What the folder of a study says of itself.

    Attributes:
      path: as given.
      spec: its experiment.
      methods: those that it runs.
      seeds: likewise, each once.
      parts: the folders that it is divided into; itself if it is not.
    """

    path: Path
    spec: Experiment
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    parts: tuple[Path, ...]

    @classmethod
    def read(cls, path: str | Path) -> Folder:
        """Reads study.toml."""
        path = Path(path)
        study, _ = manifest.read(path)
        with located(str(path)):
            if not isinstance(study.get("experiment"), Mapping):
                raise StudyError("its study.toml does not say which experiment it is of.")
            experiment = spec.from_dict(study["experiment"])
            methods, seeds = _list(study, "methods", str), _list(study, "seeds", int)
        return cls(path, experiment, methods, tuple(dict.fromkeys(seeds)), (path,))

    def check_same(
        self, experiment: Experiment, methods: Iterable[str], seeds: Iterable[int]
    ) -> None:
        """Raises a StoreError that lists what differs, unless it is a study of just these."""
        asked, here = (
            {"experiment": spec.to_dict(e), "methods": sorted(m), "seeds": sorted(s)}
            for e, m, s in (
                (experiment, methods, seeds),
                (self.spec, self.methods, self.seeds),
            )
        )
        manifest.check_same(self.path, manifest.plain(here), asked)

    def unusual(self) -> dict[str, tuple[Any, Any]]:
        """{field: (here, usually)} of what is not as the experiment of that name has it.

        The budget does not count; options do, of the methods that are run. A scale may have
        options of its own: the folder is compared with the scale that it is nearest to.
        """
        usual = registry.get(self.spec.name)
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
    """{field: (a's, b's)} of what is not the same, of these methods `METHOD.OPTION` too."""

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
    """Whether a folder is that of a study with these methods and changes, at whichever scale.

    Other fields of the experiment may have values of their own, options of methods may not.
    """
    if folder.spec.name != study.experiment or not set(study.methods) <= set(folder.methods):
        return False
    if any(value(folder.spec, name) != wanted for name, wanted in study.changes.items()):
        return False
    options = [name for name in folder.unusual() if name.partition(".")[0] in study.methods]
    return all(name in study.changes for name in options)


def whole(path: str | Path) -> list[Folder]:
    """The studies of a folder: its own, or those into which its parts go together.

    Parts are jobs, also those that have not begun, or studies in folders of their own. Those with
    the same settings are one study, whichever methods and seeds each has.
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
    found = [each for each in inside if tree.is_tree(each) or (each / manifest.STUDY).is_file()]
    if found and not (path / manifest.STUDY).is_file():
        return [part for each in found for part in _parts(each)]
    return [Folder.read(path)]


def _joined(path: Path, group: Sequence[Folder]) -> Folder:
    """Parts of one study, as one."""
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
