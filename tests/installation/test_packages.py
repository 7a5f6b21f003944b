"""What is built from a clone, installed elsewhere by pip; these tests ask the package registry."""

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from continual_learning import installation
from tests.installation.jobs import CORE, JOBS, Job

ROOT = Path(__file__).parents[2]
COMMIT = installation.commit()
UNTRIED = {"dev", "oracle"}  # that of this environment, and one for tests alone

pytestmark = pytest.mark.slow


def run(words: list[str], folder: Path) -> str:
    """Return what a program prints, in a folder outside the clone."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "COLUMNS")
    own = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        words,
        cwd=folder,
        env=own | {"JAX_PLATFORMS": "cpu", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    if "Could not fetch URL" in done.stdout or "Failed to establish" in done.stdout:
        pytest.skip("the package registry cannot be reached")
    assert done.returncode == 0, done.stdout
    return done.stdout


def build(source: Path, target: str, out: Path) -> Path:
    """Return what the build makes of a folder with the sources."""
    run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)], source)
    [made] = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    """Return an environment that has the package without extras."""
    path = tmp_path_factory.mktemp("core")
    run([sys.executable, "-m", "venv", str(path)], path)
    run([*pip(path), str(wheel)], path)
    return path


def pip(environment: Path) -> list[str]:
    """Return the words of `pip install`."""
    return [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--no-compile"]


def wrong(environment: Path, job: Job, folder: Path) -> str | None:
    """Return what a job printed, if it is not what it has to."""
    folder.mkdir()
    (folder / "job.py").write_text(job.code)
    printed = run([str(environment / "bin/python"), "job.py"], folder)
    expected = (x.format(version=installation.VERSION, commit=COMMIT) for x in job.printed)
    return None if all(each in printed for each in expected) else printed


def test_the_package_alone(core, tmp_path):
    for number, job in enumerate(CORE):
        assert wrong(core, job, tmp_path / str(number)) is None
    said = run([str(core / "bin/continual"), "--version"], tmp_path)
    assert said == f"{installation.VERSION}\n"


def test_each_extra_alone_does_its_job_or_names_another(core, tmp_path):
    """Installed by the command that the errors name, into a copy of the environment above."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert JOBS.keys() | UNTRIED == project["optional-dependencies"].keys()
    found = {}
    for extra, job in JOBS.items():
        copy = tmp_path / "environment"
        shutil.copytree(core, copy, symlinks=True, copy_function=os.link)
        [_, _, wanted] = shlex.split(installation.command(extra))
        run([*pip(copy), wanted], tmp_path)
        found[extra] = wrong(copy, job, tmp_path / extra)
        shutil.rmtree(copy)
    assert found == dict.fromkeys(JOBS)


def test_the_source_distribution_makes_the_same_wheel(wheel, tmp_path):
    source = build(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(source) as file:
        file.extractall(tmp_path, filter="data")
    again = build(tmp_path / source.name.removesuffix(".tar.gz"), "wheel", tmp_path / "wheel")
    assert again.name == wheel.name
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as two:
        here, there = ({x.filename: x.CRC for x in each.infolist()} for each in (one, two))
        differing = {name for name, _ in here.items() ^ there.items()}
        assert {Path(name).name for name in differing} <= {"RECORD"}  # which has another order
        assert one.read(f"continual_learning/{installation.COMMIT}").decode() == f"{COMMIT}\n"
