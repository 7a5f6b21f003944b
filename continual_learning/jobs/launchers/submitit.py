"""Jobs in a SLURM array by submitit, which are queued again when their time is over."""

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
from continual_learning.jobs.tree import Tree, read
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies.launch import REQUEUE, stop_signals
from continual_learning.studies.options import RunOptions

_DEFAULTS = {"timeout_min": 60, "signal_delay_s": 120}
_LISTS = ("setup", "teardown", "srun_args")
_PLACES = ("account", "constraint", "gpus_per_node", "gres", "mem", "name", "partition", "qos")
_OFTEN = 10_000  # how often a job may run out of time: in effect, without limit
_SPARE = 20.0  # seconds that queueing again may take
_SECONDS = 0.1  # between two looks at jobs; submitit asks SLURM much less often


@dataclasses.dataclass(frozen=True)
class Submitit:
    """A launcher that sends jobs to SLURM as one array, and returns when they are queued.

    SLURM sends a job a signal `signal_delay_s` before its time is over, or when it is preempted.
    The job then ends after its chunk, or with its newest checkpoint if that takes too long, and is
    queued again. It is also queued again when `--time-limit` is over.

    Attributes:
      cluster: "slurm", or "local" for processes on this machine, which the launcher waits for.
      parameters: parameters of submitit (`timeout_min`, `gpus_per_node`, `cpus_per_task`, `mem_gb`,
        …) and of sbatch with `_` for `-` (`partition`, `account`, `array_parallelism`, …).
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
        """Raise an error if submitit or SLURM is missing, or a parameter is not known."""
        extras.require("submitit")
        if self.cluster == "slurm" and shutil.which("srun") is None:
            raise StudyError(
                "There is no SLURM here (no `srun`): use a machine from which jobs are submitted."
            )
        with tempfile.TemporaryDirectory() as folder:
            self.executor(Path(folder))

    def options(self) -> dict[str, Any]:
        """Return its options as plain data."""
        return {"cluster": self.cluster, "parameters": dict(self.parameters)}

    def commands(self) -> dict[str, Any]:
        """Return all parameters but numbers and plain words that name a place in SLURM."""
        return {name: x for name, x in self.parameters.items() if not _is_plain(name, x)}

    def run(
        self, tree: Tree, names: Sequence[str], options: RunOptions, *, wait: bool = False
    ) -> bool:
        """Send the jobs; wait for them whatever `wait` is if they run on this machine."""
        executor = self.executor(tree.path.resolve() / "submitit")
        grace = max({**_DEFAULTS, **self.parameters}["signal_delay_s"] - _SPARE, 1.0)
        with executor.batch():
            sent = [executor.submit(Task(tree.path.resolve(), n, options, grace)) for n in names]
        for name, job in zip(names, sent, strict=True):
            options.tell(f"{name}: submitted as {job.job_id}")
        if self.cluster == "local":
            for job in sent:
                job.wait()
            return True
        return wait and _wait(sent)

    def executor(self, folder: Path) -> Any:
        """Return submitit's executor, which keeps its files in a folder."""
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
    """Wait for the end of SLURM's jobs; return False if this process is told to stop before."""
    with stop_signals() as stopped:
        while not all(job.done() for job in sent):
            if stopped():
                return False
            time.sleep(_SECONDS)
    return True


class Task:
    """The function that submitit calls in a job; `checkpoint` is called before it is queued again.

    Args:
      tree: the folder of the jobs, as all machines see it.
      name: the name of the job.
      options: the options with which it is run.
      grace: the seconds that it has for its next checkpoint when it is told to end.
    """

    def __init__(self, tree: Path, name: str, options: RunOptions, grace: float):
        self.tree, self.name, self.options, self.grace = tree, name, options, grace
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """Run the job as a process of its own."""
        tree = read(self.tree)
        self._process = process.start(tree, self.name, self.options)
        # A signal handler could not wait for the process if this waited with `wait`.
        while (code := self._process.poll()) is None:
            time.sleep(_SECONDS)
        if code == REQUEUE and self.options.until_task is None:  # It has reached its time limit.
            name = extras.load("submitit").JobEnvironment.USR_SIG
            signal.raise_signal(getattr(signal, f"SIG{name}"))
        process.note_end(tree, self.name, code)
        if code not in (0, REQUEUE):
            raise RuntimeError(
                f"{self.name} ended with exit code {code}: see {tree.log(self.name)}"
            )

    def checkpoint(self) -> Any:
        """End the process, and return the task to run when the job's turn comes again."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            end = time.monotonic() + self.grace
            while self._process.poll() is None and time.monotonic() < end:
                time.sleep(_SECONDS)
            self._process.kill()
        again = type(self)(self.tree, self.name, self.options, self.grace)
        return extras.load("submitit").helpers.DelayedSubmission(again)
