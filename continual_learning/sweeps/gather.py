"""The folder of a study that continues lanes of other studies, with their rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, provenance
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.studies.store.files import new_folder
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study


def gather(folder: Path, study: Study, sources: Sequence[tuple[Path, int]]) -> None:
    """Make the folder of a study of one method from lanes of other studies.

    The folder is either complete or absent, whenever the process is killed.

    Args:
      folder: the new folder.
      study: the study.
      sources: (folder of a study, lane in it) for every lane; all lanes have done the same chunks.
    """
    [method] = study.methods
    trainer = build.trainer(study.experiment, method, build.data(study.experiment))
    paths = list(dict.fromkeys(path for path, _ in sources))
    stores = {path: Store.read(path) for path in paths}
    parts = {path: Study.from_dict(store.study) for path, store in stores.items()}
    picked = {path: np.array([lane for other, lane in sources if other == path]) for path in paths}
    # The lanes are read study by study; this restores the order of the new study.
    order = np.argsort([i for path in paths for i, s in enumerate(sources) if s[0] == path])
    states, done = [], {}
    for path, part in parts.items():
        program = program_of(trainer, Lanes(part.seeds, part.arrays()))
        try:
            found = stores[path].restore(method, program.like)
        finally:
            program.close()
        if found is None:
            raise StudyError(f"{path} has no saved state to continue from.")
        done[path], state = found[0] + 1, found[1]
        states.append(jax.tree.map(lambda x, path=path: x[picked[path]], state))
    chunks = min(done.values())
    if max(done.values()) > chunks:
        told = ", ".join(f"{path} after {count}" for path, count in done.items())
        raise StudyError(f"Lanes can only continue together from the same chunk, not from {told}.")
    together = jax.tree.map(lambda *xs: _joined(xs)[order], *states)
    with (
        new_folder(folder) as draft,
        Store.create(draft, study.to_dict(), provenance.facts()) as store,
    ):
        for chunk in range(chunks):
            rows = [
                _rows(stores[path].read_part(method, chunk), part, picked[path])
                for path, part in parts.items()
            ]
            columns = {
                name: np.concatenate([each[name] for each in rows])[order] for name in rows[0]
            }
            store.write_part(method, chunk, {name: x.reshape(-1) for name, x in columns.items()})
        store.save(method, chunks - 1, together, study.lanes, trainer.ring)
        store.log(f"{method}: goes on from {', '.join(map(str, paths))} after {chunks} chunks")


def _rows(columns: dict[str, np.ndarray], study: Study, lanes: np.ndarray) -> dict[str, np.ndarray]:
    """Return {column: [lanes, rows]} of some lanes of a part."""
    return {name: x.reshape(study.lanes, -1)[lanes] for name, x in columns.items()}


def _joined(arrays: Sequence[Any]) -> Any:
    on_host = all(isinstance(x, np.ndarray) for x in arrays)
    return np.concatenate(arrays) if on_host else jnp.concatenate(arrays)
