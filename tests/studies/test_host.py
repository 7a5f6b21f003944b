"""SAC on the host as studies: presets, errors, exact resume, every method, Gymnasium."""

import os

import numpy as np
import pandas as pd
import pytest

from continual_learning import cli
from continual_learning.analysis import load
from continual_learning.envs import host as environments
from continual_learning.envs.catalog.metaworld import MetaWorldTasks
from continual_learning.envs.host import process
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, launch, registry, spec
from continual_learning.studies.options import RunOptions
from continual_learning.studies.runner import Lanes
from tests.studies.flat import flat

TINY = {
    "tasks": 2,
    "environments": 2,
    "vector_steps_per_task": 8,
    "steps_per_row": 4,
    "rows_per_chunk": 1,
    "capacity": 12,
    "batch": 4,
    "replay_ratio": 2,
    "learning_starts": 6,
    "hidden": (4, 4),
    "probe": 8,
    "eval_every": 0,
    "eval_episodes": 2,
    "workers": 1,
}
METAWORLD = {"sequence": ("reach", "drawer-close"), "episode_length": 5}


def tiny(name="continual_metaworld", **fields):
    fields = (METAWORLD if name == "continual_metaworld" else {}) | TINY | fields
    return spec.from_dict(spec.to_dict(registry.get(name))).override(**fields)


def test_the_preset_is_the_papers():
    each = flat(registry.get("continual_metaworld"))
    assert each.sequence == environments.MT10
    assert (each.tasks, each.seeds, each.environments, each.one_hot) == (10, 5, 10, True)
    assert each.steps_per_task == 1_000_000
    assert (each.goal, each.goals) == ("shown", "fixed")
    assert (each.capacity, each.batch, each.replay_ratio) == (500_000, 256, 8)
    assert (each.hidden, each.activation, each.init) == ((256,) * 3, "relu", "he_uniform")
    assert each.reset_replay and each.reset_optimizers
    assert each.reset_targets and each.reset_alpha
    assert each.eval_every == 10_000 and each.eval_episodes == 10
    bases = {n: (m.optimizer, m.learning_rate, m.clip) for n, m in each.methods.items()}
    assert bases.pop("adam") == ("adam", 3e-4, 0.5)
    assert len(bases) == 6 and set(bases.values()) == {("muon", 1e-4, 0.5)}
    assert {m.eps_root for m in each.methods.values() if m.optimizer == "muon"} == {1e-8}
    assert each.methods["adam"].eps_root is None


def test_mt1_is_the_papers():
    each = flat(registry.get("mt1"))
    assert (each.tasks, each.seeds, each.one_hot, each.goal) == (1, 10, False, "shown")
    assert each.goals == "fixed" and MetaWorldTasks().goals == "fresh"
    assert each.steps == 2_000_000
    assert (each.capacity, each.replay_ratio) == (1_000_000, 4)
    assert {(m.optimizer, m.learning_rate) for m in each.methods.values()} == {("adam", 3e-4)}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sequence": ()}, "sequence must name at least one task"),
        ({"sequence": ("reach", "reach")}, "name each task once.*got reach, reach"),
        ({"hidden": ()}, "hidden must name"),
        ({"staleness": 2}, "staleness must be 0 or 1, got 2"),
        ({"episode_length": 501}, "episode_length must be at most 500, got 501"),
        ({"eval_every": 6}, "eval_every must be 0, or a multiple"),
    ],
)
def test_wrong_values(fields, says):
    with pytest.raises(StudyError, match=says):
        tiny(**fields)


def test_tasks_that_are_not_there():
    with pytest.raises(StudyError, match=r"Unknown task of MetaWorld 'raech'\. Did you mean"):
        build.data(tiny(sequence=("raech",)))
    with pytest.raises(StudyError, match=r"sequence: .*Nothing"):
        build.data(tiny("gymnasium", sequence=("Nothing-v0",)))


def test_the_task_of_mt1_is_an_option(capsys):
    assert cli.main(["show", "mt1", "--task", "push-v3"]) == 0
    assert 'sequence = [\n    "push-v3",\n]' in capsys.readouterr().out
    chosen = registry.get("mt1").override(sequence=("push-v3",))
    assert chosen.stream.build(None, 1).stream.names == ("push",)


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Two tasks of MetaWorld: through, and stopped after every chunk's checkpoint."""
    folder = tmp_path_factory.mktemp("studies")
    experiment = tiny(eval_every=8, diagnostics=False, **{"cpr.every": 2})
    whole, parts = folder / "whole", folder / "parts"
    assert launch.run(experiment, ["cpr"], [3], whole, RunOptions(quiet=True)) == 0
    code = launch.run(experiment, ["cpr"], [3], parts, RunOptions(quiet=True, time_limit=1e-9))
    assert code == launch.REQUEUE
    assert launch.resume(parts, RunOptions(quiet=True, checkpoint_seconds=0.0)) == 0
    return load(whole), load(parts)


def test_stopped_and_resumed_equals_through(studies):
    """In the middle of an episode of MuJoCo, with the replay beside the checkpoint."""
    through, resumed = studies
    pd.testing.assert_frame_equal(through, resumed, check_exact=True)


def test_rows(studies):
    one = studies[0]
    assert (one.seed == 3).all() and one.critic_1_units_reset.max() > 0
    assert one.step.tolist() == [8, 16, 24, 32] and one.task.tolist() == [0, 0, 1, 1]
    assert one.episodes_ended.tolist() == [0, 2, 0, 2]
    assert one.episode_length.dropna().tolist() == [5, 5]
    assert one.success.dropna().isin([0, 0.5, 1]).all()
    evaluated = one[one.evaluation_steps > 0]
    assert evaluated.step.tolist() == [16, 32] and evaluated.evaluation_steps.tolist() == [10, 20]
    assert np.isfinite(evaluated.eval_seen).all()
    assert evaluated.eval_drawer_close_success.isna().tolist() == [True, False]
    both = evaluated[["eval_reach", "eval_drawer_close"]].iloc[1].mean()
    np.testing.assert_allclose(evaluated.eval_seen.iloc[1], both, rtol=1e-6)


# Values with which a network of 8 units is reset within a few updates.
OFTEN = {
    "cpr": {"every": 2},
    "cbp": {"maturity": 2, "replacement_rate": 0.5},
    "redo": {"every": 2, "threshold": 0.9, "max_reset_fraction": None},
    "regrama": {"every": 2, "threshold": 0.9, "max_reset_fraction": None},
    "shrink_perturb": {"every": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", OFTEN)
def test_every_method_over_muon(method):
    """Resets happen, and nothing becomes NaN."""
    changes = {f"{method}.{name}": value for name, value in OFTEN[method].items()}
    changes |= {f"{method}.optimizer": "muon"}
    fields = {"sequence": ("Pendulum-v1",), "tasks": 1, "diagnostics": False}
    experiment = tiny("gymnasium", **fields, **changes)
    trainer = build.trainer(experiment, method, None)
    program = trainer.program([0], Lanes([0]).keys(), {})
    try:
        state, _ = program.chunk(program.init())
        state, rows = program.chunk(state)
    finally:
        program.close()
    assert np.isfinite(rows["critic_1_loss"]).all() and np.isfinite(rows["policy_loss"]).all()
    assert rows["critic_1_units_reset"].max() > 0 or method == "shrink_perturb"


def test_environments_of_gymnasium(tmp_path):
    """From the command line; discrete actions."""
    words = ["run", "gymnasium", "--task", "CartPole-v1", "--methods", "adam", "--seeds", "2"]
    sizes = {**TINY, "tasks": 1, "hidden": "4", "replay_ratio": 1}
    more = [w for n, v in sizes.items() for w in (f"--{n.replace('_', '-')}", str(v))]
    out = tmp_path / "study"
    assert cli.main([*words, *more, "--no-diagnostics", "--quiet", "--out", str(out)]) == 0
    rows = load(out)
    assert rows.step.tolist() == [8, 16] * 2 and "success" not in rows
    np.testing.assert_array_equal(rows.reward, 1)


def test_workers_of_every_method_end_with_the_process(tmp_path, monkeypatch):
    """Linux ends them with the thread that started them: it must be the main one."""
    parents, lifeline = [], process._lifeline

    def noted():
        parents.append(lifeline())
        return parents[-1]

    monkeypatch.setattr(process, "_lifeline", noted)
    words = ["run", "gymnasium", "--methods", "adam,cpr,redo", "--seeds", "1", "--no-diagnostics"]
    sizes = {**TINY, "tasks": 1, "hidden": "4", "replay_ratio": 1}
    more = [w for n, v in sizes.items() for w in (f"--{n.replace('_', '-')}", str(v))]
    assert cli.main([*words, *more, "--quiet", "--out", str(tmp_path / "a")]) == 0
    assert parents == [str(os.getpid())] * 3


def test_ppo_on_gymnasium_is_run_and_resumed(tmp_path):
    """From the command line; the actions are a choice."""
    words = ["run", "gymnasium_ppo", "--task", "CartPole-v1", "--methods", "adam", "--seeds", "2"]
    words += [
        "--iterations-per-task",
        "2",
        "--iterations-per-chunk",
        "1",
        "--environments",
        "2",
        "--rollout",
        "8",
    ]
    words += [
        "--minibatches",
        "2",
        "--epochs",
        "1",
        "--hidden",
        "4",
        "--probe",
        "8",
        "--workers",
        "1",
        "--quiet",
        "--out",
    ]
    whole, parts = str(tmp_path / "whole"), str(tmp_path / "parts")
    assert cli.main([*words, whole]) == 0
    assert cli.main([*words, parts, "--time-limit", "0.001s"]) == launch.REQUEUE
    assert cli.main(["resume", parts, "--quiet"]) == 0
    rows, again = load(whole), load(parts)
    assert rows.step.tolist() == again.step.tolist() == [16, 32] * 2
    assert (rows.reward == 1).all() and rows.columns.tolist() == again.columns.tolist()
