"""How jobs are to be run, whichever launcher starts them."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from continual_learning import plugins
from continual_learning.studies.launch import CHECKPOINT_SECONDS
from continual_learning.studies.nonfinite import OnNonfinite

_SINKS = ("tensorboard", "wandb")


@dataclasses.dataclass(frozen=True)
class Running:
    """Options of `launch.run` that go to the process of every job.

    Attributes:
      time_limit: seconds; for all jobs together where they run in turn.
      sinks: where rows go too.
      deterministic: whether the same numbers must come again on a GPU.
      trust_modules: whether modules that the experiment names may be imported.
      until_task: how many tasks to complete of every method, if not all.
      checkpoint_seconds: how long a job goes without keeping its state.
      on_nonfinite: what happens when a loss or a parameter is first not finite.
      quiet: whether launchers print nothing; jobs always write their logs.
      plugins: files of users that each job loads before it begins.
    """

    time_limit: float | None = None
    sinks: tuple[str, ...] = ()
    deterministic: bool = False
    trust_modules: bool = False
    until_task: int | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    on_nonfinite: OnNonfinite = "warn"
    quiet: bool = False
    plugins: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """As arguments of `launch.run` and `launch.resume`, for a process that writes a log."""
        given = {**dataclasses.asdict(self), "quiet": False}
        del given["plugins"]
        return given

    def load_plugins(self) -> None:
        """Run the files of users, so that what they register is known."""
        for file in self.plugins:
            plugins.load(file)

    def words(self) -> list[str]:
        """As options of the worker's command line."""
        words = ["--checkpoint-seconds", str(self.checkpoint_seconds)]
        words += ["--on-nonfinite", self.on_nonfinite]
        if self.time_limit is not None:
            words += ["--time-limit", str(self.time_limit)]
        if self.until_task is not None:
            words += ["--until-task", str(self.until_task)]
        words += [f"--{sink}" for sink in self.sinks]
        words += [f"--plugin={file}" for file in self.plugins]
        words += ["--deterministic"] * self.deterministic
        return words + ["--trust-modules"] * self.trust_modules

    def tell(self, line: str) -> None:
        """Prints a line, unless nothing is to be printed."""
        if not self.quiet:
            print(line, flush=True)

    @staticmethod
    def add(parser: argparse.ArgumentParser) -> None:
        """Adds the options that `words` writes."""
        parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after it")
        parser.add_argument("--until-task", type=int, metavar="NUMBER", help="stop after so many")
        parser.add_argument("--checkpoint-seconds", type=float, default=CHECKPOINT_SECONDS)
        parser.add_argument("--on-nonfinite", default="warn")
        parser.add_argument("--plugin", action="append", default=[], metavar="FILE", dest="plugins")
        for name in (*_SINKS, "deterministic", "trust-modules"):
            parser.add_argument(f"--{name}", action="store_true")

    @classmethod
    def parsed(cls, args: argparse.Namespace) -> Running:
        """What the options say."""
        sinks = tuple(sink for sink in _SINKS if getattr(args, sink))
        same = (
            "time_limit",
            "deterministic",
            "trust_modules",
            "until_task",
            "checkpoint_seconds",
            "on_nonfinite",
        )
        files = tuple(args.plugins)
        return cls(sinks=sinks, plugins=files, **{name: getattr(args, name) for name in same})


DEFAULT = Running()
