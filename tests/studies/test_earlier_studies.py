"""A study that an earlier version began goes on, and ends with the rows it would have had there.

`tests/data/study_1aab58c` holds the studies, and their rows from beginning to end.
"""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from continual_learning import report
from continual_learning.analysis import load
from continual_learning.studies import launch

DATA = Path(__file__).parents[1] / "data" / "study_1aab58c"


@pytest.mark.parametrize("name", ["digits", pytest.param("ant", marks=pytest.mark.slow)])
def test_an_earlier_study_goes_on(name, tmp_path):
    folder = tmp_path / name
    shutil.copytree(DATA / name, folder)
    before = load(folder)
    assert launch.resume(folder, quiet=True) == 0
    found, expected = load(folder), pd.read_csv(DATA / f"{name}.csv")
    # Columns that were not measured then are not added in the middle of a study.
    assert [*found] == [*expected]
    kept = found[found.step <= before.step.max()].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, before)
    numbers = found.select_dtypes("number").columns
    # Compilers round differently from version to version.
    np.testing.assert_allclose(found[numbers], expected[numbers], rtol=0.05, atol=0.02)
    assert "<html" in report.make([folder])
