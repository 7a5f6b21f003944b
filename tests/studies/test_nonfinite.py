"""Runs that are no longer finite: told with step and seed, in the run, its log and the report."""

import numpy as np
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.report import studies
from continual_learning.studies.nonfinite import Guard, Nonfinite, first
from continual_learning.studies.store.store import Store

NAN, INF = np.nan, np.inf


def rows(**columns):
    """Two lanes of three rows; `seed` is 5 and 7."""
    base = {"seed": np.repeat([5, 7], 3), "step": np.tile([10, 20, 30], 2)}
    return base | {name: np.array(values, float) for name, values in columns.items()}


FINE = [1.0] * 6


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"test_loss": FINE, "parameter_norm": FINE}, None),
        ({"test_loss": [1, 1, NAN, 1, NAN, NAN]}, Nonfinite("test_loss", NAN, 20, 7, 2)),
        ({"gradient_norm": [1, INF, 1, 1, 1, 1]}, Nonfinite("gradient_norm", INF, 20, 5, 1)),
        ({"p_parameter_norm": [*FINE[:5], INF]}, Nonfinite("p_parameter_norm", INF, 30, 7, 1)),
        # What is measured only now and then says nothing.
        ({"episode_return": [NAN] * 6, "effective_rank": [NAN] * 6, "glossary": [NAN] * 6}, None),
        # An agent that waits for data has no losses yet; its temperature it has.
        ({"policy_loss": [NAN] * 6, "alpha": FINE}, None),
        ({"q_loss": [INF] + [NAN] * 5, "alpha": FINE}, Nonfinite("q_loss", INF, 10, 5, 1)),
        ({"q_loss": [NAN] * 6, "alpha": [*FINE[:5], NAN]}, Nonfinite("alpha", NAN, 30, 7, 1)),
    ],
)
def test_the_first_that_is_not_finite(columns, found):
    assert repr(first(rows(**columns))) == repr(found)


def test_a_guard_tells_once_and_tells_lanes_of_a_seed_apart():
    guard = Guard(2)
    bad = rows(test_loss=[1, NAN, NAN, 1, 1, NAN]) | {"seed": np.full(6, 5)}
    assert guard(rows(test_loss=FINE)) is None and guard.found is None
    found = guard(bad)
    assert found is not None and (found.step, found.seed, found.lanes) == (20, 5, 2)
    assert guard(bad) is None and guard.found == found


START = ["run", "permuted_digits", "--methods", "adam", "--seeds", "2", "--quiet", "--hidden", "8"]
SMALL = [*START, "--tasks", "2", "--examples-per-task", "64", "--rows-per-task", "4"]
DIVERGING = [*SMALL, "--set", "adam.learning_rate=1e30"]
TOLD = "adam is not finite: "


def test_a_run_that_diverges_is_warned_of(tmp_path, capsys):
    assert cli.main([*DIVERGING, "--out", str(tmp_path / "a")]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"Warning: {TOLD}") and said.count("Warning") == 1
    assert "at step 2 of seed 0, the first of 2 runs.\n" in said
    assert f" {TOLD}" in (tmp_path / "a" / "log.txt").read_text()
    [section] = studies.read([tmp_path / "a"])
    [notice] = [each for each in section.notices if "not finite" in each]
    assert notice == said.removeprefix("Warning: ").strip()


def test_or_it_stops_with_everything_saved(tmp_path, capsys):
    out = tmp_path / "a"
    assert cli.main([*DIVERGING, "--out", str(out), "--on-nonfinite", "stop"]) == 1
    said = capsys.readouterr().err
    assert f"continual: {TOLD}" in said and "resume it with --on-nonfinite warn" in said
    assert Store.read(out).progress() == {"adam": 1}
    assert cli.main(["resume", str(out), "--quiet", "--on-nonfinite", "stop"]) == 1
    assert Store.read(out).progress() == {"adam": 2}
    assert cli.main(["resume", str(out), "--quiet"]) == 0
    assert len(load(out)) == 2 * 2 * 4


def test_a_run_that_is_finite_is_not_stopped(tmp_path, capsys):
    assert cli.main([*SMALL, "--out", str(tmp_path / "a"), "--on-nonfinite", "stop"]) == 0
    assert capsys.readouterr().err == ""
    [section] = studies.read([tmp_path / "a"])
    assert section.notices == []


HOST = ["run", "gymnasium", "--methods", "adam", "--seeds", "1", "--quiet", "--hidden", "4"]
HOST += ["--environments", "2", "--vector-steps-per-task", "60", "--steps-per-row", "10"]
HOST += ["--rows-per-chunk", "1", "--capacity", "40", "--batch", "4", "--learning-starts", "8"]
HOST += ["--eval-every", "60", "--eval-episodes", "1", "--workers", "1", "--no-diagnostics"]


def test_an_agent_that_diverges_is_told_and_no_environment_is_blamed(tmp_path, capsys):
    pytest.importorskip("gymnasium")
    out = tmp_path / "a"
    assert cli.main([*HOST, "--set", "adam.learning_rate=1e30", "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"Warning: {TOLD}") and said.count("Warning") == 1
    assert load(out).step.tolist() == [20, 40, 60, 80, 100, 120]
