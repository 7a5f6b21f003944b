"""Measured times of the methods of an experiment, and the table of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from continual_learning.schema.errors import StudyError
from continual_learning.studies.store.files import write_file


class Row(NamedTuple):
    """The times of a method.

    Attributes:
      method: the name of the method.
      seconds: the median of the seconds of a chunk over the rounds.
      steps_per_second: the steps of all seeds in a second, by that median.
      hours: the hours that the whole run takes, by that median.
      overhead: the percentage by which the method is slower than the first one in the same round:
        the median, the least and the most.
    """

    method: str
    seconds: float
    steps_per_second: float
    hours: float
    overhead: tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Timings:
    """The times of rounds in which every method ran one chunk, one after the other.

    Attributes:
      experiment: the name of the experiment.
      seeds: the number of seeds side by side in each program.
      steps: the steps of all seeds in a chunk.
      chunks: the number of chunks of the whole run.
      seconds: {method: the seconds of each round}. The first method is the one that the others are
        compared with.
      facts: the machine and the versions, by `provenance.facts`.
    """

    experiment: str
    seeds: int
    steps: int
    chunks: int
    seconds: Mapping[str, Sequence[float]]
    facts: Mapping[str, Any]

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(next(iter(self.seconds.values())))

    def rows(self) -> list[Row]:
        """Return a row for each method."""
        first, found = next(iter(self.seconds.values())), []
        for method, seconds in self.seconds.items():
            middle = median(seconds)
            slower = [100 * (s / base - 1) for s, base in zip(seconds, first, strict=True)]
            overhead = median(slower), min(slower), max(slower)
            hours = middle * self.chunks / 3600
            found.append(Row(method, middle, self.steps / middle, hours, overhead))
        return found

    def text(self) -> str:
        """Return a table for the terminal."""
        first, *others = self.rows()
        lines = [
            f"{self.experiment} on {self.facts.get('device', 'an unknown device')}: "
            f"{self.seeds} seeds, {self.rounds} rounds of {self.steps:,} steps",
            f"{'method':18}{'median':>11}{'steps/s':>14}{f'over {first.method}':>16}  from … to",
        ]
        for row in (first, *others):
            line = f"{row.method:18}{row.seconds:>9.3f} s{row.steps_per_second:>14,.0f}"
            if row is not first:
                middle, low, high = row.overhead
                line += f"{middle:>+14.1f} %  {low:+.1f} … {high:+.1f} %"
            lines.append(line)
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write the times to a JSON file."""
        text = json.dumps(dataclasses.asdict(self), indent=1)
        write_file(path, f"{text}\n".encode())

    @classmethod
    def load(cls, path: str | Path) -> Timings:
        """Return the times that `save` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            found = cls(**{f.name: data[f.name] for f in dataclasses.fields(cls)})
            lengths = {len(each) for each in found.seconds.values()}
            if len(lengths) != 1 or not lengths.pop():
                raise ValueError
            found.rows()
        except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError):
            raise StudyError(
                f"{path} is not a file of `continual bench methods EXPERIMENT --out FILE.json`."
            ) from None
        return found
