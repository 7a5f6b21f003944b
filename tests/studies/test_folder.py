"""The folder of a study, as readers open it."""

import shutil
from pathlib import Path

import pytest

from continual_learning.studies.folder import open_studies, open_study
from continual_learning.studies.store.files import StoreError

EARLIER = Path(__file__).parents[1] / "data" / "study_1aab58c"


def test_a_study_of_an_earlier_version():
    folder = open_study(EARLIER / "digits")
    assert folder.study.experiment == folder.experiment
    assert (folder.methods, folder.seeds) == (folder.study.methods, folder.study.seeds)
    assert folder.factors.keys() == {"stream", "agent", "networks"}
    assert {file.suffix for file in folder.row_files} == {".parquet"}
    assert set(folder.row_files) < set(folder.files) and "newest rows of" in folder.written
    assert [*folder.texts] == ["study.toml", "environment.json"]
    assert [each.path for each in open_studies(EARLIER / "digits")] == [EARLIER / "digits"]


def test_some_of_its_lanes():
    whole, part = (open_study(EARLIER / "digits", kept) for kept in (None, [1]))
    assert part.seeds == whole.seeds[1:2] and part.study.lanes == 1
    assert part.runs < whole.runs and part.stored == whole.stored


def test_of_a_version_that_is_not_known(tmp_path):
    """Its rows are read, its experiment is not."""
    shutil.copytree(EARLIER / "digits", tmp_path / "x")
    file = tmp_path / "x/study.toml"
    lines = file.read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    file.write_text(text.replace("[study.experiment]", "[study.experiment]\nwarp = 9"))
    folder = open_study(tmp_path / "x")
    assert folder.experiment is None and folder.methods and folder.specs and folder.row_files
    with pytest.raises(StoreError, match="is not the folder of a study"):
        open_study(tmp_path)
