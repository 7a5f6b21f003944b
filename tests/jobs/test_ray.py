"""Jobs on a Ray cluster of this machine, where one loses its process."""

import os
import signal

import pytest

from continual_learning import cli
from continual_learning.jobs import launchers, tree
from continual_learning.jobs.launchers.ray import Ray
from continual_learning.schema.errors import StudyError
from tests.jobs.small import SECOND, check_same, start, wait_for_checkpoint, worker_of


def test_a_job_whose_process_is_lost_goes_on(tmp_path, whole):
    path = tmp_path / "tree"
    parent = start(path, "ray", num_cpus=0.5)
    wait_for_checkpoint(path / "jobs" / SECOND, parent)
    _, starter = worker_of(tree.read(path), SECOND)
    os.kill(starter, signal.SIGKILL)
    said, _ = parent.communicate(timeout=300)
    assert parent.returncode == 0, said
    assert (path / "jobs" / SECOND / "log.txt").read_text().count("resumed") == 1
    check_same(path, whole)
    assert launchers.from_dict(tree.read(path).launcher) == Ray(num_cpus=0.5)


def test_options(tmp_path, capsys):
    given = {"address": "auto", "num_cpus": 2, "num_gpus": 0.5, "max_retries": 1}
    assert launchers.make("ray", given).options() == given
    with pytest.raises(StudyError, match="num_gpus must be a number from 0; got 'all'"):
        Ray(num_gpus="all")  # pyright: ignore[reportArgumentType]
    run = ["run", "permuted_digits", "--scale", "smoke", "--out", str(tmp_path / "new")]
    for words, message in [
        (
            ["--launcher", "ray", "--ray", "gpus=1"],
            "Unknown option of the launcher ray",
        ),
        (["--launcher", "ray", "--ray", "address"], "--ray address: write NAME=VALUE"),
        (["--launcher", "ray", "--ray", "address=none"], "leave it out instead"),
        (["--launcher", "ray", "--ray", "num_gpus=1", "num_gpus=2"], "num_gpus is given twice"),
        (["--launcher", "local", "--ray", "num_gpus=1"], "--ray is for --launcher ray, not for"),
        (["--ray", "num_gpus=1"], "--ray goes with --launcher"),
    ]:
        assert cli.main([*run, *words]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
