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
from continual_learning.schema.earlier import current
from continual_learning.studies import launch
from continual_learning.studies.options import RunOptions

DATA = Path(__file__).parents[1] / "data" / "study_1aab58c"


# A robot that falls soon makes much of another processor's rounding: by step 256 some columns of
# the ant are 50 % off (tried with `--xla_cpu_max_isa=SSE4_2`), by step 192 less than 0.2 %.
@pytest.mark.parametrize(
    ("name", "until"), [("digits", 100), pytest.param("ant", 192, marks=pytest.mark.slow)]
)
def test_an_earlier_study_goes_on(name, until, tmp_path):
    folder = tmp_path / name
    shutil.copytree(DATA / name, folder)
    before = load(folder)
    assert launch.resume(folder, RunOptions(quiet=True)) == 0
    found, expected = load(folder), pd.read_csv(DATA / f"{name}.csv").rename(columns=current)
    # Columns that were not measured then are not added in the middle of a study.
    assert [*found] == [*expected]
    kept = found[found.step <= before.step.max()].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, before)
    numbers = found.select_dtypes("number").columns
    assert [*found.step] == [*expected.step]
    rows = expected.step <= until
    assert expected.step[rows].max() > before.step.max()
    # Compilers round differently from version to version.
    np.testing.assert_allclose(
        found.loc[rows, numbers], expected.loc[rows, numbers], rtol=0.05, atol=0.02
    )
    assert "<html" in report.make([folder])
