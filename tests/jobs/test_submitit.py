"""Jobs through submitit: its local executor with a preemption, and what is sent to SLURM."""

import os
import re
import signal
import threading

import pytest
import submitit  # noqa: F401, here since it sets up logging, which must not happen in a test

from continual_learning import cli
from continual_learning.jobs import launchers, manage, states, tree
from continual_learning.jobs.launchers.submitit import Submitit
from continual_learning.schema.errors import MissingExtraError, StudyError
from continual_learning.studies.options import RunOptions
from tests.jobs.small import FIRST, check_same, jobs, start, wait_for_checkpoint, worker_of

SLURM = {"partition": "gpu", "gpus_per_node": 1, "timeout_min": 30, "setup": "module load cuda"}


def test_a_job_that_is_preempted_goes_on(tmp_path, whole):
    path = tmp_path / "tree"
    parent = start(path, "submitit", cluster="local")
    wait_for_checkpoint(path / "jobs" / FIRST, parent)
    # As SLURM does, which tells all processes of a job.
    for process in worker_of(tree.read(path), FIRST):
        os.kill(process, signal.SIGUSR2)
    said, _ = parent.communicate(timeout=300)
    assert parent.returncode == 0, said
    log = (path / "jobs" / FIRST / "log.txt").read_text()
    assert log.count("resumed") == 1 and "redo: stopped" in log
    check_same(path, whole)
    [said] = [
        text
        for text in (file.read_text() for file in path.glob("submitit/*.err"))
        if "Caught signal SIGUSR2" in text
    ]
    assert "this job is preempted" in said


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands that seem to be SLURM's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("srun", "sbatch"):
        (folder / name).write_text("#!/bin/sh\necho Submitted batch job 12\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.usefixtures("slurm")
def test_what_is_sent_to_slurm(tmp_path, capsys):
    words = ["run", "permuted_digits", "--scale", "smoke", "--methods", "redo", "--seeds", "3"]
    words += ["--seeds-per-job", "1"]
    words += ["--launcher", "submitit", "--slurm", "partition=gpu", "gpus_per_node=1"]
    words += ["timeout_min=30", "setup=module load cuda", "--out", str(tmp_path / "tree")]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "redo-seed0: submitted as 12_0" in said and "redo-seed2: submitted as 12_2" in said
    assert f"continual status {tmp_path / 'tree'}" in said
    script = tmp_path / "tree" / "submitit" / "12_submission.sh"
    lines = script.read_text().splitlines()
    for line in (
        "#SBATCH --array=0-2%3",
        "#SBATCH --gpus-per-node=1",
        "#SBATCH --open-mode=append",
        "#SBATCH --partition=gpu",
        "#SBATCH --requeue",
        "#SBATCH --signal=USR2@120",
        "#SBATCH --time=30",
        "module load cuda",
    ):
        assert line in lines, line
    assert re.fullmatch(r"srun .* -m submitit.core._submit .*/tree/submitit", lines[-1])
    made = tree.read(tmp_path / "tree")
    assert launchers.from_dict(made.launcher) == Submitit("slurm", SLURM)
    assert states.state(made, "redo-seed0").word == "not begun"
    # What was sent once is sent again by whoever asks; the first to begin a job runs it. Commands
    # of a folder are not run: they are repeated by whoever trusts them.
    assert cli.main(["resume", str(made.path)]) == cli.FAILED
    refused = capsys.readouterr().err
    assert "setup = 'module load cuda'" in refused and "--launcher submitit" in refused
    again = words[words.index("--launcher") : words.index("--out")]
    assert cli.main(["resume", str(made.path), *again]) == 0
    assert "redo-seed0: submitted as 12_0" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "state"), [(21, "COMPLETED"), (22, "FAILED"), (23, "RUNNING")])
def test_jobs_of_slurm_that_are_waited_for(slurm, tmp_path, number, state):
    """Until SLURM says that they have ended, or this process is told to stop."""
    for name, said in (
        ("sbatch", f"Submitted batch job {number}"),
        ("sacct", f"JobID|State|NodeList\\n{number}_0|{state}|a\\n{number}_1|{state}|b"),
    ):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\nprintf '{said}\\n'\n")
        (tmp_path / "bin" / name).chmod(0o755)
    made = tree.create(tmp_path / "tree", jobs(), {"name": "submitit"})
    stop = threading.Timer(1.0, signal.raise_signal, [signal.SIGTERM])
    if state == "RUNNING":
        stop.start()
    ended = Submitit().run(made, list(made.jobs), RunOptions(quiet=True), wait=True)
    assert ended == (state != "RUNNING")
    if ended:
        code = manage.resume(
            made.path, Submitit(), RunOptions(quiet=True), within=tmp_path / "sweep"
        )
        assert code == 75  # nothing has run, whatever SLURM says


@pytest.mark.usefixtures("slurm")
def test_parameters_that_are_wrong():
    with pytest.raises(StudyError, match="cluster must be slurm or local, got 'pbs'"):
        Submitit("pbs")
    with pytest.raises(StudyError, match="Unknown argument 'partitoin'"):
        Submitit(parameters={"partitoin": "gpu"}).check()
    with pytest.raises(StudyError, match="timeout_min must be a whole number above 0, got 'soon'"):
        Submitit(parameters={"timeout_min": "soon"}).check()
    Submitit(parameters=SLURM).check()


def test_what_is_missing_leaves_no_tree(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StudyError, match="There is no SLURM here"):
        manage.begin(tmp_path / "tree", jobs(), Submitit())
    monkeypatch.setattr("continual_learning.extras._installed", lambda module: False)
    for name in ("submitit", "ray"):
        with pytest.raises(MissingExtraError, match=rf"pip install 'plasticax\[{name}\]'"):
            manage.begin(tmp_path / "tree", jobs(), launchers.make(name, {}))
    assert not list(tmp_path.iterdir())
