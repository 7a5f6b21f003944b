"""Jobs as data: what they are called, how they lie on the disk, how far they are."""

import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.jobs import manage, states, tree
from continual_learning.jobs.job import Job, divide
from continual_learning.jobs.worker import work
from continual_learning.paper.folders import Folder
from continual_learning.report import studies as sections
from continual_learning.schema.errors import StudyError
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store.files import StoreError
from continual_learning.studies.store.lock import Lock
from continual_learning.studies.study import Study
from tests.jobs.small import FIRST, NAMES, SECOND, SEEDS, check_same, experiment, jobs
from tests.studies.edited import edit

LAUNCHER = {"name": "local", "options": {"parallel": 2}}


def names(*arguments):
    return [job.name for job in divide(experiment(), *arguments)]


def test_a_job_for_every_method_and_block_of_seeds():
    assert names(["adam", "cpr"], [0, 1, 2]) == ["adam", "cpr"]
    assert names(["cpr"], [0, 1, 2, 3, 4], 2) == ["cpr-seeds0-1", "cpr-seeds2-3", "cpr-seed4"]
    assert names(["cpr"], [3, 7, 5], 2) == ["cpr-seeds3-7", "cpr-seed5"]
    assert names(["cpr"], [0, 1], 9) == ["cpr"]
    parts = divide(experiment(), ["adam", "cpr"], [0, 1, 2], 2)
    assert [(job.study.methods, job.study.seeds) for job in parts] == [
        (["adam"], [0, 1]),
        (["adam"], [2]),
        (["cpr"], [0, 1]),
        (["cpr"], [2]),
    ]
    with pytest.raises(StudyError, match="at least one seed, got 0"):
        names(["cpr"], [0], 0)


@pytest.mark.parametrize("name", ["", "..", "../x", "-x", "a/b", "a b", "ä", "x.log", "x.lock"])
def test_names_that_are_no_folder(name):
    with pytest.raises(StudyError, match="The name of a job becomes a folder"):
        Job(name, jobs()[0].study)


def test_plain_data_and_back(tmp_path):
    hyper = Job("lanes", Study(experiment(), ["cpr"], [0, 0], {"max_reset": [0.1, 0.2]}))
    made = tree.create(tmp_path / "a" / "b", [*jobs(), hyper], LAUNCHER)
    assert tree.read(made.path) == made
    assert list(made.jobs) == [*NAMES, "lanes"]
    assert tree.is_tree(made.path) and not tree.is_tree(tmp_path)


def test_a_tree_is_made_once(tmp_path):
    with pytest.raises(StudyError, match="two are called redo-seed0"):
        tree.create(tmp_path / "twice", [jobs()[0]] * 2, LAUNCHER)
    with pytest.raises(StudyError, match="there is none"):
        tree.create(tmp_path / "none", [], LAUNCHER)
    assert not list(tmp_path.iterdir())
    tree.create(tmp_path / "tree", jobs(), LAUNCHER)
    with pytest.raises(StoreError, match="holds jobs already"):
        tree.create(tmp_path / "tree", jobs(), LAUNCHER)
    with pytest.raises(StoreError, match=r"is not empty \(tree, …\)"):
        tree.create(tmp_path, jobs(), LAUNCHER)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("schema = 1", "schema = 2", "has schema 2, written by a newer version"),
        ("schema = 1", "schema = ", "is damaged"),
        ('name = "redo-', 'name = "../redo-', "does not describe jobs"),
        ('kind = "dataset"', 'kind = "magic"', "does not describe jobs"),
        ("methods = [", "ways = [", "does not describe jobs .StudyError: A study needs `methods`"),
    ],
)
def test_a_file_that_is_not_ours(tmp_path, before, after, message):
    path = tree.create(tmp_path / "tree", jobs(), LAUNCHER).path
    edit(path / tree.FILE, before, after, 1)
    with pytest.raises(StoreError, match=message):
        tree.read(path)


def test_how_far_they_are(tmp_path, whole, capsys):
    """A worker that stops, one that fails and is tried again, and what is shown of them."""
    made = tree.create(tmp_path / "tree", jobs(), LAUNCHER)
    with pytest.raises(StoreError, match="has no metrics yet"):
        load(made.path)
    with pytest.raises(StudyError, match=r"No job of .* has begun"):
        sections.read([made.path])
    with pytest.raises(
        StudyError, match=r"Unknown job of .*Did you mean 'redo-seed0'.*Valid: redo-"
    ):
        made.job("redo-sed0")

    blocked = made.folder(FIRST) / "stray.txt"
    blocked.parent.mkdir()
    blocked.write_text("")
    assert work(made, FIRST, RunOptions()) == 1
    assert work(made, SECOND, RunOptions(time_limit=0.0)) == 75
    assert states.state(made, FIRST)[:3] == ("failed", 0, 60)
    assert states.state(made, SECOND) == ("to resume", 1, 60, "")
    said = manage.status(made.path)
    assert "2 jobs, 1 failed, 1 to resume" in said
    assert f"{FIRST}      0 of 60 chunks  failed: continual_learning" in said
    assert "is not empty (stray.txt)" in said and str(made.failure(FIRST)) in said
    assert "Traceback (most recent call last)" in made.failure(FIRST).read_text()
    assert f"{SECOND}      1 of 60 chunks  to resume" in said and "--retry" in said

    # A neighbor's failure keeps nobody from reading what there is.
    assert load(made.path).seed.unique().tolist() == SEEDS[1:]
    [section] = sections.read([made.path])
    assert section.planned == {"redo": SEEDS[1:]}
    assert section.notices == [
        f"{made.path}: 1 of 2 jobs have not begun: {FIRST}.",
        f"{made.path}: 1 of 2 jobs failed: {FIRST}.",
    ]
    assert cli.main(["render", str(made.path)]) == 2
    assert "holds jobs: name the folder of one of them" in capsys.readouterr().err
    assert [Folder.read(each).seeds for each in tree.studies(made.path)] == [(3,)]

    blocked.unlink()
    assert [work(made, name, RunOptions()) for name in made.jobs] == [0, 0]
    assert not made.failure(FIRST).exists()
    assert manage.status(made.path).startswith(f"{made.path}: 2 jobs, 2 finished")
    check_same(made.path, whole)
    [section] = sections.read([made.path])
    assert section.planned == {"redo": SEEDS} and not section.notices
    assert work(made, SECOND, RunOptions()) == 0  # nothing left to do


def test_two_processes_do_not_run_one_job(tmp_path, monkeypatch, capsys):
    made = tree.create(tmp_path / "tree", jobs(), LAUNCHER)
    assert not states.is_claimed(made.lock(FIRST))
    monkeypatch.setattr(states, "_PATIENCE", 0.2)
    lock = Lock(made.lock(FIRST))
    assert states.state(made, FIRST).word == "running"
    assert work(made, FIRST, RunOptions()) == 0
    assert f"{FIRST} is being run by another process" in capsys.readouterr().out
    assert not made.folder(FIRST).exists()
    lock.release()
    assert states.state(made, FIRST).word == "not begun"


class Nobody:
    """A launcher that runs nothing, and says that it does when it is to wait."""

    def check(self):
        pass

    def options(self):
        return {}

    def run(self, tree, names, running, *, wait=False):
        return wait


def test_who_needs_the_results_waits_for_jobs_that_others_run(tmp_path, monkeypatch):
    made = tree.create(tmp_path / "tree", jobs(), LAUNCHER)
    assert manage.resume(made.path, Nobody(), RunOptions(quiet=True)) == 0  # handed over
    lock, looks, look = Lock(made.lock(FIRST)), [], manage._words

    def released_then(tree):
        looks.append(look(tree))
        if len(looks) == 3:
            lock.release()
        return looks[-1]

    monkeypatch.setattr(manage, "_SECONDS", 0.01)
    monkeypatch.setattr(manage, "_words", released_then)
    assert manage.resume(made.path, Nobody(), RunOptions(quiet=True), within=tmp_path) == 75
    assert looks == [{"running", "not begun"}] * 3 + [{"not begun"}]
