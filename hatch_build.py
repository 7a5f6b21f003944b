"""Write into what is built from a clone which commit it is of; used by the build alone."""

import runpy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Commit(BuildHookInterface):
    """Add the file that `continual_learning.installation.commit` reads.

    An editable installation needs none, since it asks Git; a source distribution has it already.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file outside the clone, which stays as it is."""
        package = Path(self.root, "continual_learning")
        installation = runpy.run_path(str(package / "installation.py"))
        name, commit = installation["COMMIT"], installation["commit"]()
        if version == "editable" or commit is None or (package / name).exists():
            return
        self._folder = TemporaryDirectory()
        file = Path(self._folder.name, name)
        file.write_text(f"{commit}\n", "utf-8")
        build_data["force_include"][str(file)] = f"continual_learning/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was written."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
