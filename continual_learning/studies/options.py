"""The options of a run, for a process, for jobs and for a sweep."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Literal

from continual_learning import plugins


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run, which do not change the study.

    Attributes:
      time_limit: the seconds after which to stop with everything saved.
      quiet: whether to print nothing.
      sinks: the sinks that take the metrics in addition to the folder: "tensorboard", "wandb".
      deterministic: whether a GPU must give the same numbers again, more slowly.
      trust_modules: whether modules that the experiment names may be imported.
      until_task: the number of tasks after which to stop every method, or None for all.
      checkpoint_seconds: the seconds between checkpoints.
      on_nonfinite: the reaction to the first loss or parameter that is not finite: "warn" prints a
        warning, and "stop" ends the run by a `NonfiniteError` with everything saved.
      chunks: the number of chunks after which a method counts as finished for now, or None for all.
      plugins: the files of users that a process loads before it runs a job.
    """

    time_limit: float | None = None
    quiet: bool = False
    sinks: Sequence[str] = ()
    deterministic: bool = False
    trust_modules: bool = False
    until_task: int | None = None
    checkpoint_seconds: float = 60.0
    on_nonfinite: Literal["stop", "warn"] = "warn"
    chunks: int | None = None
    plugins: Sequence[str] = ()

    def tell(self, line: str) -> None:
        """Print a line, unless nothing is to be printed."""
        if not self.quiet:
            print(line, flush=True)

    def load_plugins(self) -> None:
        """Run the files of users, so that what they register is known."""
        for file in self.plugins:
            plugins.load(file)

    def dumps(self) -> str:
        """Return the options that differ from the defaults as text, for the command of a job."""
        own = dataclasses.asdict(self)
        usual = {each.name: each.default for each in dataclasses.fields(self)}
        return json.dumps({name: own[name] for name in own if own[name] != usual[name]})

    @classmethod
    def loads(cls, text: str) -> RunOptions:
        """Return the options that `dumps` wrote."""
        return cls(**json.loads(text))


DEFAULT = RunOptions()
