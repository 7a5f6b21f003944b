"""How many lanes fit into the memory of a device, measured by compiling programs.

The memory of a compiled program is nearly a straight line in its lanes: a constant that all lanes
share, and an amount that every lane adds. Two programs of different size give the line, the line
gives the size to use, and a program of this size is compiled to confirm it.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from continual_learning.schema.errors import StudyError
from continual_learning.studies import build
from continual_learning.studies.memory import SMALLER, exhausted
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.studies.study import Study
from continual_learning.sweeps.plan import divide, lanes_of

SHARE = 0.9
"""The share of the memory that programs may use. Allocators round up, and checkpoints and the
compiler's trials of kernels need some memory, too."""

_SMALL = 2  # lanes of the first program; compilers treat a single lane differently
_TRIES = 6  # the most programs that are compiled


class Line(NamedTuple):
    """The bytes of a device as a straight line in the lanes on it."""

    fixed: float
    per_lane: float

    @classmethod
    def through(cls, measured: Mapping[int, float]) -> Line:
        """Return the line through the two largest programs, or through zero and a single one."""
        (n, low), (m, high) = sorted({0: 0, **measured}.items())[-2:]
        slope = (high - low) / (m - n)
        return cls(low - slope * n, slope)

    def at(self, lanes: int) -> float:
        """Return the bytes that so many lanes need."""
        return self.fixed + self.per_lane * lanes

    def most(self, limit: float) -> int:
        """Return how many lanes need no more than `limit` bytes."""
        return int((limit - self.fixed) / self.per_lane) if self.per_lane > 0 else sys.maxsize


class Fit(NamedTuple):
    """The division of a study.

    Attributes:
      size: the lanes of its largest block, on every device.
      needed: the bytes of a device that so many lanes need, by the compiler's plan.
      limit: the bytes that are available.
      measured: {lanes on a device: bytes by the compiler's plan} of every compiled program.
    """

    size: int
    needed: float
    limit: int
    measured: dict[int, float]


def fit(lanes: int, limit: int, bytes_at: Callable[[int], float]) -> Fit:
    """Return the largest equal blocks of `lanes` lanes that stay within the limit.

    Args:
      lanes: the lanes to run on one device.
      limit: the bytes of the device.
      bytes_at: (lanes) -> bytes that their program needs; infinite where there is too little memory
        to compile it, because compilers try their kernels.
    """
    measured: dict[int, float] = {}
    known: dict[int, float] = {}
    size = min(_SMALL, lanes)
    while size not in measured and len(measured) < _TRIES:
        measured[size] = bytes_at(size)
        fitting = max([n for n in measured if measured[n] <= limit], default=1)
        too_many = min([n for n in measured if measured[n] > limit], default=lanes + 1)
        if too_many == 1:
            needs = size_of(measured[1]) if measured[1] < math.inf else "more than there is"
            raise StudyError(
                f"The program of a single lane needs {needs}; of this device it may take "
                f"{size_of(limit)}. {SMALLER} `--memory` says how much of it may be taken."
            )
        known = {n: needed for n, needed in measured.items() if needed < math.inf}
        guess = Line.through(known).most(limit) if known else 1
        if measured.get(too_many) == math.inf:
            guess = min(guess, math.isqrt(fitting * too_many))
        size = _even(lanes, min(max(guess, fitting), too_many - 1))
        if len(measured) == 1 and size in measured:  # The line through zero was too cautious.
            size = min(2 * _SMALL, lanes)
    size = max(n for n in known if known[n] <= limit)
    return Fit(size, known[size], limit, known)


def blocks(
    study: Study, limit: int | None = None, most: int | None = None, data: Any = None
) -> tuple[list[Study], Fit | None]:
    """Return a study as blocks of lanes that fit into memory, and the measurements.

    Args:
      study: a study with one method.
      limit: the bytes of a device; None for `available()`.
      most: the most lanes of a block; nothing is measured if it is given.
      data: the data that all lanes share, if it is loaded already.
    """
    if most is not None:
        return divide(study, most), None
    shared = build.data(study.experiment) if data is None else data
    trainer = build.trainer(study.experiment, study.methods[0], shared)
    devices = jax.devices()

    def bytes_at(count: int) -> float:
        part = lanes_of(study, 0, count)
        lanes = Lanes(part.seeds, part.arrays(), devices[:1])
        with contextlib.closing(program_of(trainer, lanes)) as program:
            try:
                return program.memory()
            except jax.errors.JaxRuntimeError as error:
                if not exhausted(error):
                    raise
                return math.inf
            except NotImplementedError as error:
                raise StudyError(
                    f"{error} Give the number of lanes that a program may have: --lanes."
                ) from None

    on_each = -(-study.lanes // len(devices))
    found = fit(on_each, available() if limit is None else limit, bytes_at)
    return divide(study, found.size * len(devices)), found


def available() -> int:
    """Return the bytes that a program may use: a share of a device's memory or of free memory."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(SHARE * (stats["bytes_limit"] - stats.get("bytes_in_use", 0)))
    return int(SHARE * _free())


def size_of(count: float) -> str:
    """Return bytes as text, such as 1.5 GB."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _free() -> int:
    """Return the free bytes of the machine that this process may use."""
    info = Path("/proc/meminfo")
    if not info.is_file():
        raise StudyError("The free memory of this machine cannot be read: give it with --memory.")
    [line] = [each for each in info.read_text().splitlines() if each.startswith("MemAvailable:")]
    free = int(line.split()[1]) * 1024
    group = [Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current")]
    if all(path.is_file() for path in group):
        most, now = (path.read_text().strip() for path in group)
        free = free if most == "max" else min(free, int(most) - int(now))
    return free


def _even(lanes: int, most: int) -> int:
    """Return the size of the largest of as few blocks as possible, of at most `most` lanes."""
    return -(-lanes // -(-lanes // most))
