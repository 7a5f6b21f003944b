"""How long methods of an experiment took, in turn: what was measured, and what it says."""

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
    """A method.

    Attributes:
      method: its name.
      seconds: median over rounds.
      steps_per_second: of all seeds, by that median.
      hours: of the whole run, by that median.
      overhead: by how many percent it is slower than the first method in the same round: median,
        least, most.
    """

    method: str
    seconds: float
    steps_per_second: float
    hours: float
    overhead: tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Timings:
    """Rounds in which every method ran one chunk, one after the other.

    Attributes:
      experiment: its name.
      seeds: side by side in each program.
      steps: of all seeds in a chunk.
      chunks: that make up the whole run.
      seconds: {method: of each round}; the others are compared with the first.
      facts: where it was measured.
    """

    experiment: str
    seeds: int
    steps: int
    chunks: int
    seconds: Mapping[str, Sequence[float]]
    facts: Mapping[str, Any]

    @property
    def rounds(self) -> int:
        """How many."""
        return len(next(iter(self.seconds.values())))

    def rows(self) -> list[Row]:
        """A row for each method."""
        first, found = next(iter(self.seconds.values())), []
        for method, seconds in self.seconds.items():
            middle = median(seconds)
            slower = [100 * (s / base - 1) for s, base in zip(seconds, first, strict=True)]
            overhead = median(slower), min(slower), max(slower)
            hours = middle * self.chunks / 3600
            found.append(Row(method, middle, self.steps / middle, hours, overhead))
        return found

    def text(self) -> str:
        """A table for the terminal."""
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
        """Writes a JSON file."""
        text = json.dumps(dataclasses.asdict(self), indent=1)
        write_file(path, f"{text}\n".encode())

    @classmethod
    def load(cls, path: str | Path) -> Timings:
        """What `save` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            found = cls(**{f.name: data[f.name] for f in dataclasses.fields(cls)})
            lengths = {len(each) for each in found.seconds.values()}
            if len(lengths) != 1 or not lengths.pop():
                raise ValueError
            found.rows()
        except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError):
            raise StudyError(
                f"{path} is no file of `continual bench methods EXPERIMENT --out FILE.json`."
            ) from None
        return found
