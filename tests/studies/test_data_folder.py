"""A folder with fewer images than MNIST: an epoch is a pass over what is there."""

import numpy as np
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.studies import build, registry, spec
from continual_learning.studies.store.store import Store
from tests.envs.conftest import idx

SPEC = registry.get("permuted_mnist").override(tasks=2, rows_per_task=1, hidden=(4,))


@pytest.fixture
def folder(tmp_path):
    """50 training and 10 test images of 2×3."""
    labels = np.arange(10, dtype=np.uint8)
    path = tmp_path / "data"
    path.mkdir()
    for name, count in (("train", 50), ("t10k", 10)):
        images = np.random.default_rng(0).integers(0, 256, (count, 2, 3), np.uint8)
        (path / f"{name}-images-idx3-ubyte").write_bytes(idx(images))
        (path / f"{name}-labels-idx1-ubyte").write_bytes(idx(np.resize(labels, count)))
    return path


def test_epochs_count_what_is_there(folder, tmp_path, capsys):
    file, out = tmp_path / "x.toml", tmp_path / "study"
    spec.save(SPEC.override(data_folder=str(folder), epochs=3, diagnostics=False), file)
    words = ["run", str(file), "--methods", "adam", "--seeds", "1", "--quiet", "--out", str(out)]
    assert cli.main(words) == 0
    steps = 3 * (50 // SPEC.value("batch_size"))
    assert load(out).step.tolist() == [steps, 2 * steps]
    assert Store.read(out).study["experiment"]["stream"]["examples_per_task"] == 50
    assert cli.main(["status", str(out)]) == 0
    assert "2 of 2 chunks  finished" in capsys.readouterr().out


def test_who_asks_for_less_gets_it(folder):
    def examples(asked):
        chosen = SPEC.override(data_folder=str(folder), examples_per_task=asked)
        return build.fitted(chosen).value("examples_per_task")

    assert (examples(None), examples(50), examples(32), examples(1000)) == (50, 50, 32, 50)


def test_a_budget_that_does_not_fit_is_told(folder, tmp_path, capsys):
    words = ["run", "permuted_mnist", "--data-folder", str(folder), "--out", str(tmp_path / "x")]
    assert cli.main(words) == 2
    assert "rows_per_task must divide the" in capsys.readouterr().err


def test_what_has_all_examples_is_as_it_was():
    assert build.fitted(SPEC) == SPEC
