"""The checkpoints of all methods, `checkpoints/METHOD/000012`, and rows of rings beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continual_learning.studies.store import checkpoint, ring
from continual_learning.studies.store.files import explained, new_folder, remove_folder, sweep

KEPT = 2  # checkpoints per method

_ROWS = ".rows"  # end of the name of a segment


class Checkpoints:
    """The checkpoints of all methods.

    Args:
      folder: the folder `checkpoints` in the folder of a study.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def methods(self) -> list[str]:
        """Return the names of the methods that have a folder."""
        return sorted(f.name for f in self.folder.glob("[!.]*") if f.is_dir())

    def of(self, method: str) -> list[int]:
        """Return the chunks that have a checkpoint, in order."""
        folders = self.folder.joinpath(method).glob("*")
        return sorted(int(f.name) for f in folders if re.fullmatch(r"\d{6,}", f.name))

    def path(self, method: str, chunk: int) -> Path:
        """Return the folder of a checkpoint."""
        return self.folder / method / f"{chunk:06d}"

    def write(
        self,
        method: str,
        chunk: int,
        state: Any,
        lanes: int | None,
        path: str | None,
        of: Mapping[str, Any],
    ) -> None:
        """Write a checkpoint, newer than all others, and remove those that are not kept any more.

        Args:
          method: the name of the method.
          chunk: the last chunk that is done.
          state: a tree of arrays [lanes, …].
          lanes: the number of lanes to keep, or None for all.
          path: the path of a ring in the state, whose new rows go into a segment beside the
            checkpoint, or None.
          of: the origin of the checkpoint, by `checkpoint.bound`.
        """
        folder, kept = self.path(method, chunk), None
        if path is not None:
            lanes = checkpoint.describe(state)[0] if lanes is None else lanes
            segment = folder.with_name(f"{folder.name}{_ROWS}")
            # The segment is written before the checkpoint that needs it.
            kept = ring.append(segment, state, path, lanes, self._newest_rows(method))
        with new_folder(folder) as draft:
            checkpoint.write(draft, state, lanes, kept, of)
        self._drop_old(method)

    def set_aside(self, method: str, chunk: int) -> None:
        """Move a damaged checkpoint to a folder that nobody reads."""
        folder = self.path(method, chunk)
        aside = folder.with_name(f"{folder.name}.damaged")
        if aside.exists():
            remove_folder(aside)
        with explained("set aside", folder):
            os.rename(folder, aside)

    def drop_needless_rows(self, method: str) -> None:
        """Remove the segments that no checkpoint needs, with those that a killed process left."""
        segments = list(self.folder.joinpath(method).glob(f"[!.]*{_ROWS}"))
        needed: set[str] = set()
        for chunk in self.of(method) if segments else ():
            try:
                kept = self._rows(method, chunk)
            except checkpoint.Damaged:
                return  # Its needs are unknown, and newer checkpoints will replace it.
            needed |= kept.segments.keys() if kept else set()
        for segment in segments:
            if segment.name not in needed:
                remove_folder(segment)

    def sweep(self) -> None:
        """Remove the drafts and the old checkpoints that a killed process left."""
        for method in self.methods():
            sweep(self.folder / method)
            self._drop_old(method)

    def _drop_old(self, method: str) -> None:
        for chunk in self.of(method)[:-KEPT]:
            remove_folder(self.path(method, chunk))
        self.drop_needless_rows(method)

    def _newest_rows(self, method: str) -> ring.Kept | None:
        """Return the place of the newest checkpoint's rows, or None if all must be written."""
        chunks = self.of(method)
        try:
            return self._rows(method, chunks[-1]) if chunks else None
        except checkpoint.Damaged:
            return None

    def _rows(self, method: str, chunk: int) -> ring.Kept | None:
        folder = self.path(method, chunk)
        with explained("read", folder):
            return checkpoint.rows_kept(folder)
