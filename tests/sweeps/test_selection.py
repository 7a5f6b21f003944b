"""Which settings are best: known numbers in folders of studies."""

import numpy as np
import pytest

from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from continual_learning.studies.store.store import Store
from continual_learning.sweeps import launch, selection
from continual_learning.sweeps.grid import Grid
from continual_learning.sweeps.plan import programs
from continual_learning.sweeps.sweep import Sweep

SPEC = registry.get("permuted_digits").override(tasks=2, seeds=2, rows_per_task=1)
STEPS = SPEC.steps_per_task
NAN, INF = float("nan"), float("inf")
GRID = Grid({"max_reset": (0.015, 0.1, 0.2), "max_reset_fraction": (None, 0.5)})


def sweep(values, seeds=(1000, 1001)):
    return Sweep(SPEC, SPEC, "cpr", Grid({"max_reset": values}), seeds)


def write(folder, study, scores, tasks=2):
    """A study whose lanes have these values in the two rows of their last task."""
    with Store.create(folder, study.to_dict(), {}) as store:
        for task in range(tasks):
            lanes, last = study.lanes, task == SPEC.tasks - 1
            rows = {
                "seed": np.repeat(study.seeds, 2),
                **{f"hyper_{n}": np.repeat(v, 2) for n, v in study.arrays().items()},
                "step": np.tile([task * STEPS + 1, (task + 1) * STEPS], lanes),
                "task": np.full(2 * lanes, task),
                "test_accuracy": np.float32(scores if last else 100.0) * np.ones((lanes, 2)),
            }
            rows["test_accuracy"] = rows["test_accuracy"].reshape(-1)
            store.write_part("cpr", task, rows)
    return folder


def ranked(path, values, scores, **options):
    asked = sweep(values)
    [study] = programs(SPEC, "cpr", asked.grid.configurations(), asked.seeds)
    folder = write(path / "study", study, scores, options.pop("tasks", 2))
    ranking = selection.rank(asked, asked.grid.configurations(), [folder], **options)
    return asked, ranking


def places(ranking):
    return [each.configuration["max_reset"] for each in ranking.best]


def test_the_mean_over_the_last_task_and_over_seeds(tmp_path):
    scores = [[0.5, 0.7], [0.1, 0.3], [0.6, 0.6], [0.4, 0.4], [0.4, 0.6], [NAN, 0.9]]
    asked, ranking = ranked(tmp_path, (0.015, 0.1, 0.2), scores)
    assert places(ranking) == [0.2, 0.1, 0.015]
    np.testing.assert_allclose(ranking.best[2].scores, [0.6, 0.2], rtol=1e-6)
    np.testing.assert_allclose([each.mean for each in ranking.best], [0.7, 0.5, 0.4], rtol=1e-6)
    assert ranking.metric == "test_accuracy" and not ranking.behind
    text = selection.describe(ranking)
    assert text.splitlines()[2].split() == ["1", "0.2", "0.7", "0.7", "0.5", "0.9", "2"]
    selection.write_best(tmp_path / "best.toml", asked, ranking)
    chosen = registry.get(tmp_path / "best.toml")
    assert chosen == SPEC.override(**{"cpr.max_reset": 0.2})
    assert "seeds 1000, 1001" in (tmp_path / "best.toml").read_text()


def test_equals_stay_in_the_order_of_the_grid(tmp_path):
    _, ranking = ranked(tmp_path, (0.2, 0.015, 0.1), [[1.0]] * 4 + [[2.0]] * 2)
    assert places(ranking) == [0.1, 0.2, 0.015]


@pytest.mark.parametrize("lost", [[NAN, NAN], [INF, 0.5], [-INF, INF]])
def test_what_diverged_is_the_worst(tmp_path, lost):
    scores = [[9.0, 9.0], lost, [0.1, 0.1], [0.1, 0.1]]
    _, ranking = ranked(tmp_path, (0.015, 0.1), scores)
    assert places(ranking) == [0.1, 0.015] and ranking.best[1].mean == -INF
    text = selection.describe(ranking)
    assert "1 diverged with at least one seed and count as the worst" in text
    assert text.splitlines()[3].split() == ["2", "0.015", "diverged", "2"]


def test_nothing_to_choose(tmp_path):
    asked, ranking = ranked(tmp_path, (0.015,), [[NAN, NAN]] * 2)
    with pytest.raises(StudyError, match="nothing to choose"):
        selection.best(asked, ranking)


def test_runs_that_are_not_at_their_end(tmp_path):
    asked, ranking = ranked(tmp_path, (0.015, 0.1), 1.0, tasks=1)
    assert not ranking.best and len(ranking.behind) == 2
    assert "2 have not come to their end" in selection.describe(ranking)
    # They have come through their first task.
    folder = [tmp_path / "study"]
    early = selection.rank(asked, asked.grid.configurations(), folder, steps=STEPS)
    assert [each.mean for each in early.best] == [100.0, 100.0]


def test_studies_of_several_programs(tmp_path):
    """Where a setting is none, it is not among the lanes' numbers."""
    spec = SPEC.override(**{"redo.threshold": 0.5})
    grid = Grid({"threshold": (0.1, 0.3), "max_reset_fraction": (None, 0.5)})
    asked = Sweep(spec, spec, "redo", grid, [1000])
    studies = programs(spec, "redo", grid.configurations(), asked.seeds)
    folders = []
    for number, study in enumerate(studies):
        folder = tmp_path / str(number)
        with Store.create(folder, study.to_dict(), {}) as store:
            hyper = {f"hyper_{name}": values for name, values in study.arrays().items()}
            index = {"seed": study.seeds, "step": [2 * STEPS] * 2, "task": [1, 1]}
            index = {name: np.asarray(values) for name, values in index.items()}
            store.write_part("redo", 0, {**index, **hyper, "score": np.array([2.0, number])})
        folders.append(folder)
    ranking = selection.rank(asked, grid.configurations(), folders, metric="score")
    found = [(*each.configuration.values(), each.mean) for each in ranking.best]
    assert found == [(0.1, None, 2), (0.1, 0.5, 2), (0.3, 0.5, 1), (0.3, None, 0)]
    with pytest.raises(StudyError, match=r"Unknown metric 'scores'. Did you mean 'score'\?"):
        selection.rank(asked, grid.configurations(), folders, metric="scores")
    with pytest.raises(StudyError, match="There are no rows yet"):
        selection.rank(asked, grid.configurations(), [])


def test_settings_that_made_no_difference_are_told(tmp_path):
    def told(name, scores):
        return selection.describe(ranked(tmp_path / name, (0.015, 0.1, 0.2), scores)[1])

    same, other = [[0.5, 0.7], [0.4, 0.2]], [[0.6, 0.6], [0.6, 0.6]]
    assert "All settings gave identical rows: they made no difference" in told("all", same * 3)
    some = told("some", same * 2 + other)
    assert "identical rows, where the settings made no difference: 2, 3." in some
    assert "identical" not in told("none", [[0.1 * i, 0.2] for i in range(6)])


@pytest.mark.parametrize(("second", "offered"), [([0.5, 0.7], False), ([0.5, 0.8], True)])
def test_a_best_is_offered_where_there_is_one(tmp_path, second, offered, monkeypatch, capsys):
    both = ranked(tmp_path, (0.015, 0.1), [[0.5, 0.7], [0.5, 0.7], second, second])
    monkeypatch.setattr(launch, "read", lambda _: both[0])
    monkeypatch.setattr(launch, "ranking", lambda *_: both[1])
    assert launch.choose(tmp_path) == 0
    assert ("To run the best" in capsys.readouterr().out) == offered


def test_equal_scores_of_different_rows_are_no_identity(tmp_path):
    """Two rows of a task may have the same mean."""
    _, ranking = ranked(tmp_path, (0.015, 0.1), [[0.2, 0.6], [0.4, 0.4], [0.6, 0.2], [0.4, 0.4]])
    assert ranking.best[0].mean == ranking.best[1].mean
    assert "identical" not in selection.describe(ranking)
