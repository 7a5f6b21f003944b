"""Methods that never reset a unit are named, on the console and in the report."""

import numpy as np
import pytest

from continual_learning import cli, report
from continual_learning.optim import registry
from continual_learning.studies.inactive import never_acted
from tests.report.report_pages import text_of

ZERO, ONE, NAN = np.zeros(3), np.array([0.0, 1.0, 0.0]), np.full(3, np.nan)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([{"units_reset": ZERO}, {"units_reset": ZERO}], True),
        ([{"units_reset": ZERO}, {"units_reset": ONE}], False),
        ([{"policy_units_reset": ZERO, "value_units_reset": ONE}], False),
        ([{"units_reset": NAN}], True),
        ([{"test_accuracy": ONE}], False),
        ([{"units_reset": ZERO[:0]}], False),
        ([], False),
    ],
)
def test_never_acted(parts, expected):
    assert never_acted(parts) == expected


@pytest.mark.parametrize("resets", [True, False])
def test_a_study_names_the_method_that_did_nothing(tmp_path, monkeypatch, capsys, resets):
    """Unless it never resets units, but changes the steps of the optimizer."""
    entry = registry.registered()["cpr"]._replace(resets=resets)
    monkeypatch.setitem(registry._ENTRIES, "cpr", entry)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "study"
    words = "run permuted_digits --scale smoke --examples-per-task 80 --hidden 8 --no-diagnostics"
    words = [*words.split(), "--methods", "adam,cpr,shrink_perturb", "--set", "cpr.every=1000"]
    assert cli.main([*words, "--out", str(path)]) == 0
    out = capsys.readouterr().out
    named = "Never reset a unit: cpr. Their rows are the optimizer's: no reset was due" in out
    assert named == resets
    assert ("Without a single reset: CPR." in text_of(report.make([path]))) == resets
