"""A launcher whose processes are this one, so that they are on the hill too."""

import dataclasses

import pytest

from continual_learning.jobs import launchers, worker


class Log:
    """What the launcher was asked.

    Attributes:
      given: [(folder of jobs, their names, whether it waits, time limit)].
      failing: names of jobs that it does not run: they fail.
    """

    def __init__(self):
        self.given, self.failing = [], set()


@pytest.fixture
def here(monkeypatch):
    """`--launcher here`; what it was asked."""
    log = Log()

    @dataclasses.dataclass(frozen=True)
    class Here:
        def check(self):
            pass

        def options(self):
            return {}

        def commands(self):
            return {}

        def run(self, tree, names, running, *, wait=False):
            log.given.append((str(tree.path), list(names), wait, running.time_limit))
            for name in names:
                if name in log.failing:
                    tree.failure(name).write_text("ValueError: no\n")
                else:
                    worker.work(tree, name, running)
            return True

    monkeypatch.setitem(launchers.LAUNCHERS, "here", Here)
    return log
