"""Locks are closed: every requirement of a locked package is met by a locked package."""

import functools
import importlib.metadata
import json
import platform
import subprocess
import sys
from itertools import product

import pytest
from packaging.utils import canonicalize_name

from tests.installation import locks

HERE = locks.environment(
    platform.python_version(), "macos" if sys.platform == "darwin" else "linux"
)
PARTS = list(product(locks.LOCKS, locks.PYTHONS, locks.PLATFORMS))


@functools.cache
def installed(name: str, version: str) -> list[str] | None:
    """Return what an installed package requires, if it has this version."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return list(found.requires or ()) if found.version == version else None


def unknown(pins: dict[str, str]) -> dict[str, str]:
    """Return the packages of which no metadata are here."""
    return {name: v for name, v in pins.items() if installed(name, v) is None}


@functools.cache
def registered(pins: tuple[tuple[str, str], ...], python: str) -> dict[tuple[str, str], list[str]]:
    """Return what packages require, as the registry says; nothing is installed."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    done = subprocess.run(
        [*pip, "--no-deps", "--ignore-requires-python", "--python-version", python]
        + ["--only-binary", ":all:", "--target", "nowhere", "--report", "-"]
        + [f"{name}=={version}" for name, version in pins],
        capture_output=True,
        text=True,
    )
    if "Connection" in done.stderr or "NameResolution" in done.stderr:
        pytest.skip("the package registry cannot be reached")
    assert done.returncode == 0, done.stderr
    found = [each["metadata"] for each in json.loads(done.stdout)["install"]]
    return {
        (canonicalize_name(each["name"]), each["version"]): each.get("requires_dist", [])
        for each in found
    }


@pytest.mark.parametrize(("lock", "python", "platform"), PARTS)
def test_closed(lock, python, platform):
    """Requirements of packages that another Python has in another version: see the test below."""
    if unknown(locks.read(lock, HERE)):
        pytest.skip(f"this environment is not the one of {lock}")
    environment = locks.environment(python, platform)
    pins = locks.read(lock, environment)
    assert locks.unmet(locks.roots(lock), pins, installed, environment) == []


@pytest.mark.parametrize("python", locks.PYTHONS)
def test_the_demo_has_the_pins_of_the_whole(python):
    """So that either can be installed over the other."""
    environment = locks.environment(python, "linux")
    demo, whole = (locks.read(f"requirements{x}.lock", environment) for x in ("-demo", ""))
    assert demo.items() <= whole.items()


@pytest.mark.slow
@pytest.mark.parametrize(("lock", "python", "platform"), PARTS)
def test_closed_also_for_what_is_not_installed(lock, python, platform):
    """It asks the package registry."""
    environment = locks.environment(python, platform)
    pins = locks.read(lock, environment)
    absent = unknown(pins)
    if not absent:
        pytest.skip("all packages of this Python are installed")
    there = registered(tuple(absent.items()), "3.11" if python < "3.12" else "3.12")

    def requires(name: str, version: str) -> list[str]:
        known = installed(name, version)
        return there[name, version] if known is None else known

    assert locks.unmet(locks.roots(lock), pins, requires, environment) == []


def test_what_is_missing_or_does_not_fit_is_told():
    known = {
        "one": ["two>=2", 'three; sys_platform == "win32"', 'four>=1; extra == "more"'],
        "two": ["five[more]"],
        "five": ['six<2; extra == "more"', 'seven; extra == "other"', "one"],
        "six": [],
    }
    environment = locks.environment("3.12.0", "linux")

    def unmet(**pins):
        return locks.unmet(["one"], pins, lambda name, _: known.get(name), environment)

    assert unmet(one="1", two="2", five="1", six="1.9") == []
    assert unmet(one="1", two="2", five="1") == [
        'five 1 requires six<2; extra == "more", which is not locked'
    ]
    assert unmet(one="1", two="1.9", five="1", six="2") == [
        "one 1 requires two>=2, but two 1.9 is locked",
        'five 1 requires six<2; extra == "more", but six 2 is locked',
    ]


def test_markers_of_a_lock_choose_its_versions():
    text = "# of a tool\na==1 ; python_full_version < '3.12' \\\n    --hash=sha256:0\n    # via b\n"
    text += "a==2 ; python_full_version >= '3.12' \\\n    --hash=sha256:1\nB.c==3\n"
    assert locks.pinned(text, locks.environment("3.11.0", "linux")) == {"a": "1", "b-c": "3"}
    assert locks.pinned(text, locks.environment("3.12.0", "linux")) == {"a": "2", "b-c": "3"}
