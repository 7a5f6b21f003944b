"""Lanes of other studies that go on together in a new folder."""

import pytest

from continual_learning.schema.errors import StudyError
from continual_learning.studies import launch
from continual_learning.studies.options import RunOptions
from continual_learning.studies.study import Study
from continual_learning.sweeps.gather import gather
from tests.sweeps import hill as problem

hill = problem.hill


def test_lanes_that_are_not_equally_far_do_not_go_on_together(hill):
    experiment = problem.SPEC.override(tasks=3)
    folders = [hill / name for name in "ab"]
    for seed, (folder, chunks) in enumerate(zip(folders, (1, 2), strict=True)):
        run = [experiment, ["cpr"], [seed], folder]
        assert launch.run(*run, RunOptions(chunks=chunks, quiet=True)) == 0
    study = Study(experiment, ["cpr"], [0, 1])
    with pytest.raises(StudyError, match=r"from the same chunk, not from .*a after 1, .*b after 2"):
        gather(hill / "both", study, [(folder, 0) for folder in folders])
    assert not (hill / "both").exists()
