"""A sweep that is killed before any change on the disk goes on to the same end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.experiments import launch
from continual_learning.experiments.jobs import tree
from continual_learning.experiments.storage.files import remove_folder
from continual_learning.experiments.storage.store import Store
from tests.experiments.sweeps import hill as problem
from tests.experiments.sweeps.test_halving import rows, words

hill = problem.hill
ROOT = Path(__file__).parents[3]


def killed(folder, kind, first, stride):
    """What is left by kills at these moments, and by none, once gone on with."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.experiments.sweeps.killed"]
    more = os.environ | {"JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [*command, str(folder), kind, str(first), str(stride)], cwd=ROOT, check=True, env=more
    )
    return sorted(folder.glob("[0-9]*"))


def numbers(folder):
    """All states, byte by byte, and the choice; logs have times in them."""
    kept = [*folder.rglob("*.npz"), folder / "best.toml"]
    return {file.relative_to(folder): file.read_bytes() for file in kept}


@pytest.mark.parametrize(
    ("kind", "first", "stride", "least"),
    [
        ("halving", 40, 60, 3),
        ("whole", 7, 40, 2),
        ("divided", 60, 60, 2),
        *(pytest.param("halving", n, 4, 40, marks=pytest.mark.slow) for n in (1, 2, 3, 4)),
        *(pytest.param("whole", n, 2, 30, marks=pytest.mark.slow) for n in (1, 2)),
        *(pytest.param("divided", n, 4, 30, marks=pytest.mark.slow) for n in (1, 2, 3, 4)),
    ],
)
def test_killed_before_every_event(tmp_path, kind, first, stride, least):
    whole, *others = killed(tmp_path, kind, first, stride)
    assert len(others) >= least
    frame = load(whole).drop(columns="study")
    assert len(numbers(whole)) > 5
    for folder in others:
        assert numbers(folder) == numbers(whole), folder
        assert load(folder).drop(columns="study").equals(frame), folder
        assert not list(folder.rglob(".*.tmp")), folder


def test_a_promotion_of_an_older_version_that_was_killed_is_made_again(hill, monkeypatch):
    """It wrote the study and some rows before the state, in place."""
    assert cli.main(words(hill / "sweep", "--halving", "3")) == 0
    expected = rows(hill / "sweep/rungs/01")
    [study] = tree.studies(hill / "sweep/rungs/01")
    kept, columns = Store.read(study), Store.read(study).read_part("cpr", 0)
    remove_folder(study)
    remove_folder(hill / "sweep/rungs/02")
    with Store.create(study, kept.study, kept.environment) as store:
        store.write_part("cpr", 0, columns)
    begun = []
    run_method = launch.run_method
    monkeypatch.setattr(
        launch,
        "run_method",
        lambda *args, **more: begun.append(args[3].progress()) or run_method(*args, **more),
    )
    assert cli.main(words(hill / "sweep", "--halving", "3")) == 0
    assert begun == [{"cpr": 1}, {"cpr": 3}]
    assert rows(hill / "sweep/rungs/01").equals(expected)
