"""Makes a table or a figure of the paper, and runs first what it needs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from continual_learning import extras
from continual_learning.jobs import manage, states, tree
from continual_learning.paper import plan
from continual_learning.paper.artifacts import Artifact
from continual_learning.paper.folders import whole
from continual_learning.paper.numbers import results
from continual_learning.studies import bench, build, launch, registry
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.folder import open_study
from continual_learning.studies.options import DEFAULT, RunOptions
from continual_learning.studies.store import manifest
from continual_learning.studies.study import Study

Change = Callable[[Experiment], Experiment]


def reproduce(
    artifact: Artifact,
    scale: str,
    out: Path,
    options: RunOptions = DEFAULT,
    change: Change = lambda experiment: experiment,
) -> int:
    """Run the studies that a table or a figure needs, or what is left of them, and make it.

    Args:
      artifact: the table or the figure.
      scale: of its studies: smoke, short or paper.
      out: folder of the studies and of what is made of them.
      options: how the studies are run; the time limit is for all of them.
      change: experiment -> the one to be run in its place.

    Returns:
      The exit code of the first study that is not finished, or 0.
    """
    plan.check_scale(scale)
    if artifact.kind == "figure":
        extras.require("figures")
    folders = []
    end = None if options.time_limit is None else time.monotonic() + options.time_limit
    for study in artifact.studies:
        if end is not None:
            # A study that begins too late stops after its first chunk.
            options = dataclasses.replace(options, time_limit=max(end - time.monotonic(), 0.001))
        folder = out / study.folder
        code = _ensure(change(study.spec(scale)), list(study.methods), folder, options)
        if code:
            return code
        folders.append(folder)
    if artifact.timed:
        experiment = change(registry.get(artifact.timed).at_scale(scale))
        folders.append(_ensure_times(artifact, experiment, out, options))
    for path in _write(artifact, folders, out):
        print(f"Wrote {path}.")
    return 0


def _ensure(spec: Experiment, methods: list[str], folder: Path, options: RunOptions) -> int:
    """Run a study, or what is left of it, also in jobs; return the exit code."""
    in_jobs = tree.is_tree(folder)
    begun = in_jobs or manifest.is_study(folder)
    seeds = list(range(spec.seeds))
    held = whole(folder) if begun else []
    if in_jobs:
        for each in held:
            each.check_same(spec, methods, seeds)
    elif begun:
        # In which order methods are run does not matter.
        stored = {**open_study(folder).table, "methods": sorted(held[0].methods)}
        manifest.check_same(folder, stored, Study(spec, sorted(methods), seeds).to_dict())
    if begun and all(map(plan.finished, held)):
        return 0
    options.tell(f"{folder}: {spec.name}, {len(methods)} methods, {spec.seeds} seeds")
    if in_jobs:
        return _resume_jobs(folder, options)
    if begun:
        return launch.resume(folder, options)
    return launch.run(spec, methods, seeds, folder, options)


def _resume_jobs(folder: Path, options: RunOptions) -> int:
    """Go on with the jobs of a study; return the exit code, 75 also if a scheduler has them now."""
    code = manage.resume(folder, options=options)
    words = {state.word for state in states.states(tree.read(folder)).values()}
    if code or words == {"finished"}:
        return code
    print(f"{folder}: its jobs are under way. Repeat the command when they are finished.")
    return launch.REQUEUE


def _ensure_times(
    artifact: Artifact, experiment: Experiment, out: Path, options: RunOptions
) -> Path:
    """Measure how long methods take, unless that was done; return the file."""
    path = out / f"{artifact.timed}_times.json"
    if not path.exists():
        rounds = min(5, build.chunks(experiment) - 1)
        names = list(results(artifact.id)["rows"])
        bench.measure(experiment, names, list(range(experiment.seeds)), rounds, path, options)
    return path


def _write(artifact: Artifact, folders: Sequence[Path], out: Path) -> list[Path]:
    """Write the table or the figure in every format; return the files."""
    if artifact.kind == "table":
        from continual_learning.paper import tables

        table = tables.make(artifact.id, folders)
        paths = {form: out / f"{artifact.id}.{form}" for form in tables.WRITERS}
        for form, path in paths.items():
            tables.save(table, path, form)
        return list(paths.values())
    from continual_learning.paper import figures

    chart = figures.make(artifact.id, folders)
    paths = [out / f"{artifact.id}.{form}" for form in ("svg", "pdf", "png")]
    for path in paths:
        figures.save(chart, path)
    return paths
