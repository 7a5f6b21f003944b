"""Strict numerics for all tests: JAX on the CPU, no silent broadcasting, reproducible examples."""

import ctypes
import gc
import os
import resource
import secrets
import sys
from pathlib import Path

import hypothesis
import jax
import pytest

# Tiny programs, each run a few times: half of the tests' time would go into optimizing them. Read
# when the first array is made, and by the processes that tests start.
_QUICK = "--xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = f"{_QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()

jax.config.update("jax_platforms", "cpu")
# A vector that meets a matrix by accident is the commonest silent error.
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation makes the first example slow, hence no deadline.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=200)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


LARGEST = 1.2 * 2**30
"""Bytes of a process from which on a worker is made smaller, after the test in progress."""


@pytest.fixture(autouse=True)
def bounded_memory():
    """Keep a worker small: compiling leaves half a gigabyte that is free but not given back.

    JAX would also hold the programs of all modules until its end. They are dropped only where
    giving back does not suffice, since the tests of a module share some of them.
    """
    yield
    if resident() > LARGEST:
        give_back()
    if resident() > LARGEST:
        jax.clear_caches()
        gc.collect()
        give_back()


def give_back():
    """Give the memory that is free back to the system, where this is possible."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).malloc_trim(0)


def resident() -> float:
    """Return the bytes of this process that are in memory; infinite where Linux does not say it."""
    file = Path("/proc/self/statm")
    if not file.exists():
        return float("inf")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_peaks: list[float] = []


def pytest_sessionfinish(session):
    """Hand the largest memory of a worker to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        session.config.workeroutput["gigabytes"] = kilobytes / 2**20


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take it from a worker that has ended."""
    if "gigabytes" in getattr(node, "workeroutput", {}):
        _peaks.append(node.workeroutput["gigabytes"])


def pytest_terminal_summary(terminalreporter):
    """Report how large the workers were; each should stay below 2.5 GB."""
    if _peaks:
        sizes = ", ".join(f"{size:.1f}" for size in _peaks)
        terminalreporter.write_line(f"Largest memory of the workers: {sizes} GB")


@pytest.fixture
def x64():
    """Lets one test compute in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session", autouse=True)
def folders_of_the_user(tmp_path_factory):
    """Nothing is left in the user's folders: programs, plug-ins that were named, Ray's token."""
    with pytest.MonkeyPatch.context() as patch:
        # Once for all clusters of a process, in which Ray reads it only once.
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
        for kind in ("CACHE", "STATE"):
            patch.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.mktemp(kind.lower())))
        yield
