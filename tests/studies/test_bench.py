"""Methods in turn: in which order, what counts, and a small run from the command line."""

import itertools

import pytest

from continual_learning import cli
from continual_learning.schema.errors import StudyError
from continual_learning.studies import bench, registry
from continual_learning.studies.timings import Timings


def test_rounds_in_turn_and_the_first_does_not_count():
    order, ticks = [], itertools.count()

    def call(name):
        def chunk(state):
            order.append((name, state))
            for _ in range({"a": 1, "b": 2, "c": 3}[name] - 1 if state else 99):
                next(ticks)
            return state + 1, None

        return chunk

    calls = {name: call(name) for name in "abc"}
    found = bench.timed(calls, dict.fromkeys("abc", 0), 2, clock=lambda: float(next(ticks)))
    assert found == {"a": [1.0, 1.0], "b": [2.0, 2.0], "c": [3.0, 3.0]}
    assert [name for name, _ in order] == [*"abc", *"bca", *"cab"]
    assert [state for _, state in order] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("rounds", [0, 200])
def test_rounds_that_there_are_not(rounds):
    with pytest.raises(StudyError, match=r"from 1 to 199.* the 200 chunks of permut"):
        bench.methods(registry.get("permuted_digits"), ["adam"], [0], rounds)


def test_learning_begins_at_once(monkeypatch):
    """Else the chunks of a method that collects data first would be timed."""
    asked = []
    monkeypatch.setattr(bench.build, "trainer", lambda experiment, *_: asked.append(experiment))
    monkeypatch.setattr(bench, "program_of", lambda *_: 1 / 0)  # nothing is compiled
    games = registry.get("continual_minatar")
    with pytest.raises(ZeroDivisionError):
        bench.methods(games, ["adam"], [0], 1)
    assert games.value("learning_starts") > 0
    assert [each.value("learning_starts") for each in asked] == [0]


def test_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "new" / "times.json"
    words = (
        "bench methods permuted_digits --methods adam,cpr --seeds 2 --rounds 2 --set tasks=3 "
        f"--set examples_per_task=64 --set hidden=8 --set diagnostics=false --out {out}"
    )
    assert cli.main(words.split()) == 0
    printed = capsys.readouterr().out
    found = Timings.load(out)
    assert printed == f"{found.text()}\nWrote {out}.\n"
    assert (found.experiment, found.seeds, found.chunks) == ("permuted_digits", 2, 3)
    assert found.steps == 2 * 64 // 8  # a chunk is a task
    assert {name: len(times) for name, times in found.seconds.items()} == {"adam": 2, "cpr": 2}
    assert found.facts["backend"] == "cpu"
    assert cli.main(words.split()) == 2
    assert "is there already" in capsys.readouterr().err
