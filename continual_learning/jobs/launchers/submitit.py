"""Jobs through submitit: a SLURM array, whose jobs are queued again when their time is over."""

from __future__ import annotations

import dataclasses
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.jobs import process
from continual_learning.jobs.running import Running
from continual_learning.jobs.tree import Tree, read
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies.launch import REQUEUE, stop_signals

_DEFAULTS = {"timeout_min": 60, "signal_delay_s": 120}
_LISTS = ("setup", "teardown", "srun_args")
_PLACES = ("account", "constraint", "gpus_per_node", "gres", "mem", "name", "partition", "qos")
_OFTEN = 10_000  # how often a job may run out of time: as often as it takes
_SPARE = 20.0  # seconds that queueing again may take
_SECONDS = 0.1  # between two looks; submitit asks SLURM much less often


@dataclasses.dataclass(frozen=True)
class Submitit:
    """Sends jobs to SLURM as one array, and returns when they are queued.

    SLURM tells a job `signal_delay_s` before its time is over, or when it is preempted. It then
    ends after its chunk, or with its newest checkpoint if that takes too long, and is queued again;
    so it is when `--time-limit` is over.

    Attributes:
      cluster: "slurm", or "local": processes on this machine, which are waited for.
      parameters: submitit's (`timeout_min`, `gpus_per_node`, `cpus_per_task`, `mem_gb`, …) and
        those of sbatch with `_` for `-` (`partition`, `account`, `array_parallelism`, …).
    """

    cluster: str = "slurm"
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.cluster not in ("slurm", "local"):
            raise StudyError(f"cluster must be slurm or local, got {bounds.shown(self.cluster)}.")
        if not isinstance(self.parameters, Mapping):
            raise StudyError(f"parameters must be a table, got {bounds.shown(self.parameters)}.")
        for name, value in self.parameters.items():
            self._check(name, value)

    def _check(self, name: str, value: Any) -> None:
        texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if not name.isidentifier() or len(name) > bounds.LETTERS:
            raise StudyError(f"{bounds.shown(name)} is no name of a parameter of SLURM.")
        if not (isinstance(value, bool | str) or texts or bounds.real(value)):
            raise StudyError(
                f"{name} must be a number, text or a list of texts, got {bounds.shown(value)}."
            )
        if name in _DEFAULTS and (type(value) is not int or not 0 < value <= bounds.INTEGERS):
            raise StudyError(f"{name} must be a whole number above 0, got {bounds.shown(value)}.")

    def check(self) -> None:
        """Raises if submitit or SLURM is missing, or a parameter is not known."""
        extras.require("submitit")
        if self.cluster == "slurm" and shutil.which("srun") is None:
            raise StudyError(
                "There is no SLURM here (no `srun`): use a machine from which jobs are submitted."
            )
        with tempfile.TemporaryDirectory() as folder:
            self.executor(Path(folder))

    def options(self) -> dict[str, Any]:
        """As plain data."""
        return {"cluster": self.cluster, "parameters": dict(self.parameters)}

    def commands(self) -> dict[str, Any]:
        """All but numbers, and plain words that name a place in SLURM."""
        return {name: x for name, x in self.parameters.items() if not _is_plain(name, x)}

    def run(
        self, tree: Tree, names: Sequence[str], running: Running, *, wait: bool = False
    ) -> bool:
        """Sends the jobs; on this machine it waits for them in any case."""
        executor = self.executor(tree.path.resolve() / "submitit")
        grace = max({**_DEFAULTS, **self.parameters}["signal_delay_s"] - _SPARE, 1.0)
        with executor.batch():
            sent = [executor.submit(Task(tree.path.resolve(), n, running, grace)) for n in names]
        for name, job in zip(names, sent, strict=True):
            running.tell(f"{name}: submitted as {job.job_id}")
        if self.cluster == "local":
            for job in sent:
                job.wait()
            return True
        return wait and _wait(sent)

    def executor(self, folder: Path) -> Any:
        """Submitit's executor, which keeps its files in a folder."""
        submitit = extras.load("submitit")
        known = submitit.AutoExecutor._typed_parameters()
        given: dict[str, Any] = {"slurm_additional_parameters": {"requeue": True}}
        for name, value in {**_DEFAULTS, **self.parameters}.items():
            value = [value] if name in _LISTS and isinstance(value, str) else value
            given[name if name in known else f"slurm_{name}"] = value
        often = {f"{self.cluster}_max_num_timeout": _OFTEN}
        executor = submitit.AutoExecutor(folder, cluster=self.cluster, **often)
        try:
            executor.update_parameters(**given)
        except (AssertionError, NameError, TypeError, ValueError) as error:
            raise StudyError(f"submitit does not take these parameters: {error}") from None
        return executor


def _is_plain(name: str, value: Any) -> bool:
    word = isinstance(value, str) and re.fullmatch(r"[\w.,:+=-]*", value, re.ASCII)
    return isinstance(value, int | float) or (name in _PLACES and bool(word))


def _wait(sent: Sequence[Any]) -> bool:
    """Until SLURM's jobs have ended; False if this process was told to stop, which they are not."""
    with stop_signals() as stopped:
        while not all(job.done() for job in sent):
            if stopped():
                return False
            time.sleep(_SECONDS)
    return True


class Task:
    """What submitit calls in each job; `checkpoint` when the job is to be queued again.

    Args:
      tree: its folder, as all machines see it.
      name: of the job.
      running: its options.
      grace: seconds that it may take to its next checkpoint when it is told to end.
    """

    def __init__(self, tree: Path, name: str, running: Running, grace: float):
        self.tree, self.name, self.running, self.grace = tree, name, running, grace
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """Runs the job as a process of its own."""
        tree = read(self.tree)
        self._process = process.start(tree, self.name, self.running)
        # Not `wait`: a signal that comes in it could not wait for the process itself.
        while (code := self._process.poll()) is None:
            time.sleep(_SECONDS)
        if code == REQUEUE and self.running.until_task is None:  # by its own time limit
            name = extras.load("submitit").JobEnvironment.USR_SIG
            signal.raise_signal(getattr(signal, f"SIG{name}"))
        process.note_end(tree, self.name, code)
        if code not in (0, REQUEUE):
            raise RuntimeError(
                f"{self.name} ended with exit code {code}: see {tree.log(self.name)}"
            )

    def checkpoint(self) -> Any:
        """Ends the process, and says what to run when the job's turn comes again."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            end = time.monotonic() + self.grace
            while self._process.poll() is None and time.monotonic() < end:
                time.sleep(_SECONDS)
            self._process.kill()
        again = type(self)(self.tree, self.name, self.running, self.grace)
        return extras.load("submitit").helpers.DelayedSubmission(again)
