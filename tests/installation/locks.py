"""What a lock lacks: requirements of its packages that no package in it meets."""

import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = {"requirements.lock": "dev", "requirements-demo.lock": "demo"}
"""{lock: the extra of the project that it is for}."""

PYTHONS = ("3.11.0", "3.11.14", "3.12.0", "3.13.0")
"""Of each supported version one; of 3.11 two, since some requirements differ within it."""
PLATFORMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    "macos": {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
}

Requires = Callable[[str, str], list[str] | None]
"""(name, version) → the requirements of a package, or None if they are not known."""


def environment(python: str, platform: str) -> dict[str, str]:
    """Return the values that markers are evaluated with."""
    version = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "implementation_version": python,
    }
    return {**default_environment(), "os_name": "posix", **version, **PLATFORMS[platform]}


def read(lock: str, environment: dict[str, str]) -> dict[str, str]:
    """Return {name: version} of the packages that a lock of the project has for an environment."""
    return pinned((ROOT / lock).read_text(), environment)


def pinned(text: str, environment: dict[str, str]) -> dict[str, str]:
    """Return {name: version} of the packages in the text of a lock for an environment."""
    found = {}
    for line in re.findall(r"^[A-Za-z0-9].*?(?=\s*\\?$)", text, re.MULTILINE):
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate(environment):
            [version] = pin.specifier
            found[canonicalize_name(pin.name)] = version.version
    return found


def roots(lock: str) -> list[str]:
    """Return what a lock is for: the project with an extra, those that it names, and the build."""
    file = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = file["project"]
    found = [*project["dependencies"], *file["dependency-groups"]["build"]]
    extras = [LOCKS[lock]]
    for each in extras:
        for line in project["optional-dependencies"][each]:
            requirement = Requirement(line)
            if requirement.name == project["name"]:
                extras += sorted(requirement.extras - {*extras})
            else:
                found.append(line)
    return found


def unmet(
    needed: Iterable[str], pins: dict[str, str], requires: Requires, environment: dict[str, str]
) -> list[str]:
    """Return the requirements that no pin meets, each with the package that has it.

    Args:
      needed: requirements of the project.
      pins: {name: version} of the lock.
      requires: the requirements of a pinned package; those that are not known are left out.
      environment: of markers.
    """
    found = []
    waiting = [("the project", line, "") for line in needed]
    seen = {*waiting}
    for owner, line, extra in waiting:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({**environment, "extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        version = pins.get(name)
        if version is None:
            found.append(f"{owner} requires {line}, which is not locked")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{owner} requires {line}, but {name} {version} is locked")
        more = [
            (f"{name} {version}", each, wanted)
            for wanted in ("", *sorted(requirement.extras))
            for each in requires(name, version) or ()
        ]
        waiting += [each for each in more if each not in seen]
        seen.update(more)
    return found
