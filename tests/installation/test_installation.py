"""The name, the version and the commit of what is installed."""

import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import continual_learning
from continual_learning import installation

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_name_and_version_are_those_of_the_project():
    assert PROJECT["name"] == installation.DISTRIBUTION
    assert PROJECT["version"] == installation.VERSION == continual_learning.__version__
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {PROJECT['version']}\n" in cited
    assert f"version = {{{PROJECT['version']}}}" in (ROOT / "README.md").read_text()


def test_the_changelog_dates_the_version():
    """And above it stands what is new since; CONTRIBUTING.md says how a version is released."""
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(PROJECT['version'])}\] - \d{{4}}-\d\d-\d\d", sections[1])


def test_a_tag_is_the_version_that_was_its_own():
    listing = subprocess.run(["git", "tag"], cwd=ROOT, capture_output=True, text=True, check=True)
    tags = [tag for tag in listing.stdout.split() if re.match(r"v\d", tag)]
    for tag in tags:
        shown = subprocess.run(
            ["git", "show", f"{tag}:pyproject.toml"], cwd=ROOT, capture_output=True, text=True
        )
        assert tag == f"v{tomllib.loads(shown.stdout)['project']['version']}"


@pytest.fixture
def copy(tmp_path):
    """Return a package of the two files that matter."""
    package = tmp_path / "clone/continual_learning"
    package.mkdir(parents=True)
    for name in ("__init__.py", "installation.py"):
        shutil.copy(ROOT / "continual_learning" / name, package)
    return package


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(package: Path) -> str | None:
    return runpy.run_path(str(package / "installation.py"))["commit"]()


def test_the_commit_of_a_clone(copy):
    git(copy.parent, "init", "--quiet")
    git(copy.parent, "add", ".")
    git(copy.parent, "commit", "--quiet", "--message", "All")
    head = git(copy.parent, "rev-parse", "HEAD")
    assert commit(copy) == head
    (copy / "new.py").touch()  # what is not tracked is not part of it
    assert commit(copy) == head
    (copy / "__init__.py").write_text("changed = True")
    assert commit(copy) == f"{head}+"


def test_the_commit_of_an_installed_package_is_that_of_its_build(copy):
    assert commit(copy) is None
    (copy / installation.COMMIT).write_text("0123abc\n")
    assert commit(copy) == "0123abc"
    git(copy.parent, "init", "--quiet")  # an environment in a clone of something else
    assert commit(copy) == "0123abc"


@pytest.mark.parametrize("found", ["0.1.6.6", None])
def test_files_of_another_distribution_are_told(found, monkeypatch):
    installation.warn_if_overwritten()
    if found:
        monkeypatch.setattr(continual_learning, "__version__", found)
    else:
        monkeypatch.delattr(continual_learning, "__version__")
    with pytest.warns(UserWarning, match=r"not that of plasticax .*pip uninstall continual-l"):
        installation.warn_if_overwritten()
