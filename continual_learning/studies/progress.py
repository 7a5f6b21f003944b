"""Shows the progress of a study as bars in a terminal, and as plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import numpy as np

from continual_learning.studies.runner import Progress


class Display(Protocol):
    """A display of the progress of a study."""

    def __enter__(self) -> Self:
        """Begin to show the progress."""
        ...

    def __exit__(self, *error: object) -> None:
        """End the display."""
        ...

    def method(self, name: str, done: int, chunks: int) -> None:
        """Show that a method begins, or goes on."""
        ...

    def chunk(self, progress: Progress, headline: str) -> None:
        """Show that a chunk is done."""
        ...


def display(quiet: bool, methods: int) -> Display:
    """Return a display of bars in a terminal, of plain lines elsewhere, or of nothing if quiet."""
    if quiet:
        return _Nothing()
    return _Bars(methods) if sys.stdout.isatty() else _Lines()


def line(progress: Progress, headline: str) -> str:
    """Return a line about a chunk: the headline's mean over seeds, the speed and the time left.

    Rows without a headline (NaN) do not count. If all rows are without one, the line says "none
    yet".
    """
    last = progress.columns["task"] == progress.columns["task"].max()
    values = progress.columns[headline][last]
    values = values[~np.isnan(values)]
    value = f"{values.mean():.4f}" if values.size else "none yet"
    rate = progress.steps / max(progress.seconds, 1e-9)
    left = duration((progress.chunks - progress.done) * progress.seconds)
    return f"{headline} {value}, {rate:,.0f} steps/s, {left} left"


def duration(seconds: float) -> str:
    """Return a duration as text such as 1:02:03 or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class _Nothing:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def method(self, name: str, done: int, chunks: int) -> None:
        pass

    def chunk(self, progress: Progress, headline: str) -> None:
        pass


def _at_once(text: str) -> None:
    """Print a line without a buffer, which would be lost if the process were killed."""
    print(text, flush=True)


class _Lines(_Nothing):
    """A display that prints a line when a method begins and ends, and every ten seconds between."""

    def __init__(self, write: Callable[[str], Any] = _at_once, every: float = 10.0):
        self.write, self.every, self.said = write, every, float("-inf")

    def method(self, name: str, done: int, chunks: int) -> None:
        self.write(f"{name}: begins" if done == 0 else f"{name}: goes on, {done} of {chunks} done")

    def chunk(self, progress: Progress, headline: str) -> None:
        now = time.monotonic()
        if now - self.said >= self.every or progress.done == progress.chunks:
            self.said = now
            self.write(
                f"{progress.method}: chunk {progress.done}/{progress.chunks}, "
                f"{line(progress, headline)}"
            )


class _Bars(_Nothing):
    """A display with a bar for the study and one for each method."""

    def __init__(self, methods: int):
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self.bars: Any = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
        )
        self.study = self.bars.add_task("study", total=methods, text="")
        self.current: Any = None
        self.context: AbstractContextManager = self.bars

    def __enter__(self) -> Self:
        self.context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.context.__exit__(*error)

    def method(self, name: str, done: int, chunks: int) -> None:
        self.current = self.bars.add_task(name, total=chunks, completed=done, text="")
        self.done = int(self.bars.tasks[self.study].completed)

    def chunk(self, progress: Progress, headline: str) -> None:
        self.bars.update(self.current, completed=progress.done, text=line(progress, headline))
        share = progress.done / progress.chunks
        self.bars.update(self.study, completed=self.done + share)
