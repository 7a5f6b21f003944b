"""What is logged beside the store, with a stand-in for the package that takes it."""

import importlib.machinery
import sys
import types

import numpy as np
import pytest

from continual_learning import extras
from continual_learning.schema.errors import MissingExtraError, StudyError
from continual_learning.studies.sinks import open_sinks

STUDY = {"experiment": {"name": "toy"}, "methods": ["adam", "cpr"], "seeds": [3, 7]}


class Run:
    """Notes what a run of Weights & Biases is told."""

    def __init__(self, **options):
        self.options, self.rows, self.finished = options, [], 0

    def log(self, metrics, step, commit):
        assert commit and not self.finished
        self.rows.append((step, metrics))

    def finish(self):
        self.finished += 1


@pytest.fixture
def runs(monkeypatch):
    """The runs that were begun, in order."""
    begun = []

    def init(**options):
        begun.append(Run(**options))
        return begun[-1]

    fake = types.ModuleType("wandb")
    fake.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    fake.init = init  # pyright: ignore
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return begun


def opened(folder, started="noon"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "environment.json").write_text(started)
    [sink] = open_sinks(["wandb"], folder, STUDY)
    return sink


def rows(first=1):
    """Two rows of two seeds."""
    return {
        "seed": np.array([3, 3, 7, 7]),
        "step": np.array([first, first + 1] * 2, np.int32),
        "task": np.zeros(4, np.int32),
        "accuracy": np.array([0.5, 0.25, 0.125, np.nan], np.float32),
    }


def test_a_run_of_wandb_per_method_and_seed(runs, tmp_path):
    sink = opened(tmp_path / "study")
    sink.write("adam", rows())
    sink.write("adam", rows(3))
    first, second = runs
    assert first.rows[:2] == [
        (1, {"task": 0.0, "accuracy": 0.5}),
        (2, {"task": 0.0, "accuracy": 0.25}),
    ]
    assert [step for step, _ in first.rows] == [step for step, _ in second.rows] == [1, 2, 3, 4]
    assert np.isnan(second.rows[1][1]["accuracy"])
    identity = first.options.pop("id")
    assert identity.endswith("-adam-3")
    assert first.options == {
        "project": "continual-toy",
        "group": "adam",
        "name": "study-adam-seed3",
        "resume": "allow",
        "dir": str(tmp_path / "study"),
        "config": {"study": STUDY, "method": "adam", "seed": 3},
        "reinit": "create_new",
    }
    # A method that is done is told so before the next one begins.
    assert (first.finished, second.finished) == (0, 0)
    sink.write("cpr", rows())
    assert [run.finished for run in runs] == [1, 1, 0, 0]
    sink.close()
    assert [run.finished for run in runs] == [1, 1, 1, 1]


def test_a_run_of_wandb_is_gone_on_with_and_never_that_of_another_study(runs, tmp_path):
    def first_id(folder, started):
        opened(folder, started).write("adam", rows())
        return runs[-2].options["id"]

    before = first_id(tmp_path / "a" / "study", "noon")
    assert first_id(tmp_path / "moved", "noon") == before  # resumed
    assert first_id(tmp_path / "b" / "study", "two o'clock") != before


def lanes():
    """Three lanes of one seed and of two."""
    return {
        "seed": np.array([3, 3, 7]),
        "hyper_max_reset": np.array([0.015, 0.5, 0.5], np.float32),
        "hyper_every": np.array([10, 10, 10], np.int32),
        "step": np.array([1, 1, 1], np.int32),
        "accuracy": np.array([0.5, 0.25, 0.125], np.float32),
    }


def test_lanes_that_share_a_seed_are_runs_of_their_own(runs, tmp_path):
    opened(tmp_path / "study").write("cpr", lanes())
    ids = [run.options["id"].partition("-")[2] for run in runs]
    assert ids == [
        "cpr-3-max_reset=0.015-every=10",
        "cpr-3-max_reset=0.5-every=10",
        "cpr-7-max_reset=0.5-every=10",
    ]
    assert runs[0].options["name"] == "study-cpr-seed3-max_reset=0.015-every=10"
    config = {"method": "cpr", "seed": 3, "max_reset": 0.015, "every": 10}
    assert runs[0].options["config"] == {"study": STUDY, **config}
    assert [run.rows for run in runs] == [[(1, {"accuracy": x})] for x in (0.5, 0.25, 0.125)]


def test_lanes_that_share_a_seed_have_folders_of_their_own(tmp_path):
    [sink] = open_sinks(["tensorboard"], tmp_path, STUDY)
    sink.write("cpr", lanes())
    sink.close()
    assert sorted(path.name for path in (tmp_path / "tensorboard" / "cpr").iterdir()) == [
        "seed_3-max_reset=0.015-every=10",
        "seed_3-max_reset=0.5-every=10",
        "seed_7-max_reset=0.5-every=10",
    ]


def test_what_cannot_be_logged_to(monkeypatch, tmp_path):
    with pytest.raises(StudyError, match=r"\['printer'\]. Valid: tensorboard, wandb"):
        open_sinks(["printer"], tmp_path, STUDY)
    monkeypatch.setattr(extras, "_installed", lambda module: False)
    with pytest.raises(MissingExtraError, match=r"wandb is not.*plasticax\[wandb\]"):
        open_sinks(["wandb"], tmp_path, STUDY)
