"""Recognizes errors by too little memory, and adds advice to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from continual_learning.schema.errors import command
from continual_learning.studies.store.files import MachineError
from continual_learning.studies.study import Study

SMALLER = (
    "Use fewer environments, a smaller batch or replay (capacity), a smaller `--scale`, or a "
    "device with more memory."
)
"""The advice if not even one lane fits into memory."""


class OutOfMemoryError(MachineError):
    """A study needs more memory than there is; what it saved is intact."""


def exhausted(error: BaseException) -> bool:
    """Return whether an error says that NumPy or a device of JAX had too little memory."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


@contextlib.contextmanager
def explained(study: Study, folder: Path) -> Iterator[None]:
    """Turn an error by too little memory into one with the number of lanes and advice.

    Args:
      study: the study that runs.
      folder: the folder of the study.

    Raises:
      OutOfMemoryError: if the body runs out of memory.
    """
    try:
        yield
    except Exception as error:
        if not exhausted(error):
            raise
        raise OutOfMemoryError(f"{folder} ran out of memory with {_advice(study)}") from error


def _advice(study: Study) -> str:
    if study.lanes == 1:
        return f"a single lane. {SMALLER} What it saved is intact."
    return (
        f"{study.lanes} lanes in one program. What it saved is intact: where there is more memory, "
        f"resume it (jobs: `{command('resume', 'DIR', '--retry')}`). To use less, begin anew with "
        "fewer lanes in a program: `continual run` takes --seeds-per-job with --launcher, "
        "`continual sweep` takes --lanes or --memory."
    )
