"""Ablations: what they change, and lanes that run as one program."""

import math

import numpy as np
import pytest

from continual_learning.analysis import load
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, launch, registry, spec
from continual_learning.studies.methods import check
from continual_learning.studies.options import RunOptions
from continual_learning.studies.presets.ablations import BASES
from continual_learning.studies.study import Study

SMALL = {"tasks": 2, "examples_per_task": 64, "hidden": (8,), "diagnostics": False}


def get(name):
    return registry.get(name)


@pytest.mark.parametrize("base", BASES)
def test_valid_at_every_scale_and_round_trip(base):
    names = [name for name in registry.ablations() if name.startswith(base)]
    assert len(names) == (13 if base.startswith("slippery") else 11)
    for name in names:
        each = get(name)
        assert each.name == name and each.title.endswith(f"ablation of {base}")
        check(each)
        for scale in ("paper", "short", "smoke"):
            scaled = each.at_scale(scale)
            assert spec.loads(spec.dumps(scaled)) == scaled  # which checks `lanes` too


def test_values():
    assert get("slippery_humanoid_rho").lanes == {
        "max_reset": (0.001, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.1)
    }
    kappa = (0, 0.5, 1, 2, 4, 8, 12, 16, 20, math.inf)
    assert get("slippery_ant_kappa").lanes == {"sharpness": kappa}
    assert get("permuted_mnist_shape_kappa").lanes == {"shape": (0, 1, 2, 3), "sharpness": kappa}
    assert list(get("slippery_ant_rho").methods) == ["cpr"]


@pytest.mark.parametrize(
    ("kind", "variant", "options"),
    [
        ("score", "cpr_per_sample", {"score": "per_sample"}),
        ("outgoing", "cpr_no_shrink", {"shrink_outgoing": False}),
        ("recentering", "cpr_no_recentering", {"recenter": False}),
        ("moments", "cpr_moments", {"reset_moments": True}),
        ("bias", "cpr_bias", {"reset_bias": True}),
    ],
)
def test_variants_differ_from_cpr_in_one_option(kind, variant, options):
    base, each = get("slippery_ant"), get(f"slippery_ant_{kind}")
    assert list(each.methods) == ["cpr", variant]
    assert each.methods["cpr"] == base.methods["cpr"]
    assert each.methods[variant] == base.methods["cpr"].override(**options)


def test_optimizers():
    methods = get("slippery_ant_optimizer").methods
    assert [(name, m.optimizer, m.reset) for name, m in methods.items()] == [
        ("adam", "adam", None),
        ("cpr", "adam", "cpr"),
        ("adamw", "adamw", None),
        ("cpr_adamw", "adamw", "cpr"),
        ("muon", "muon", None),
        ("cpr_muon", "muon", "cpr"),
    ]
    assert {m.learning_rate for m in methods.values()} == {1e-3}


def test_a_larger_rollout_keeps_the_steps_of_a_task():
    usual = get("slippery_ant")
    twice, four = get("slippery_ant_rollout_2x"), get("slippery_ant_rollout_4x")
    assert (twice.value("rollout"), twice.value("iterations_per_task")) == (192, 51)
    assert twice.steps_per_task == usual.steps_per_task
    # 25.5 rollouts are 26: 2 % more steps.
    assert (four.value("rollout"), four.value("iterations_per_task")) == (384, 26)
    assert twice.at_scale("short").steps_per_task == usual.at_scale("short").steps_per_task


def test_unknown_ablations():
    with pytest.raises(StudyError, match=r"ablation of slippery_ant 'roh'. Did you mean 'rho'"):
        get("slippery_ant_roh")
    with pytest.raises(StudyError, match="ablation of permuted_mnist 'rollout_2x'"):
        get("permuted_mnist_rollout_2x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": {"max_reset": 0.1}}, "lanes.max_reset must be a list of different numbers"),
        ({"lanes": {"max_reset": []}}, "lanes.max_reset must be a list"),
        ({"lanes": {"max_reset": [0.1, 0.1]}}, "lanes.max_reset must be a list"),
        ({"lanes": {"max_reset": [True]}}, "lanes.max_reset must be a list"),
        ({"lanes": {"max_reset": [math.nan]}}, "lanes.max_reset must be a list"),
        ({"lanes": {"max_reset": [[0.1]]}}, "lanes.max_reset must be a list"),
        ({"lanes": {"max_reset": [0.1, 2]}}, "lanes.max_reset: CPR: max_reset must be .* got 2"),
        ({"lanes": {"shape": [4]}}, "lanes.shape: CPR: shape must be one of .* got 4"),
        ({"lanes": {"learning_rate": [0.0]}}, "learning_rate must be a number above 0; got 0.0"),
        ({"lanes": {"maximum": [0.1]}}, "Unknown number of the method 'maximum'.*max_reset"),
        ({"lanes": {"score": [1]}}, "Unknown number of the method 'score'"),
        ({"methods": get("permuted_digits").methods}, r"lanes \(max_reset\) are numbers of the on"),
    ],
)
def test_lanes_that_cannot_be(changes, message):
    with pytest.raises(StudyError, match=message):
        check(get("permuted_digits_rho").override(**changes))


def test_lanes_of_the_agent_are_those_that_it_takes():
    ant = get("slippery_ant_rho")
    assert ant.override(lanes={"discount": [0.9, 0.99]}).points == 2
    with pytest.raises(StudyError, match=r"Unknown number of the method 'reward_scale'.*discount"):
        check(ant.override(lanes={"reward_scale": [0.1, 1.0]}))


def test_every_combination_with_every_seed():
    each = get("permuted_digits_rho").override(lanes={"max_reset": [0.1, 0.2], "every": [5, 7, 9]})
    study = Study(each, ["cpr"], [3, 4])
    assert study.lanes == 12 and study.seeds == [3, 4] * 6
    assert study.hyper["max_reset"] == [0.1] * 6 + [0.2] * 6
    assert study.hyper["every"] == [5, 5, 7, 7, 9, 9] * 2
    assert Study.from_dict(study.to_dict()) == study
    assert study.arrays()["every"].dtype == np.int32
    own = Study(each, ["cpr"], [3], {"decay": [0.5]})
    assert own.hyper == {"decay": [0.5]} and own.seeds == [3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["score", "outgoing", "recentering", "moments", "bias"])
def test_variants_run_and_differ(kind, tmp_path):
    changes = {"cpr.max_reset": 0.2, "cpr.every": 6}
    chosen = get(f"permuted_digits_{kind}")
    both = {f"{name}.{k.split('.')[1]}": v for name in chosen.methods for k, v in changes.items()}
    chosen = chosen.override(**SMALL, **both)
    assert (
        launch.run(chosen, list(chosen.methods), [0, 1], tmp_path / "x", RunOptions(quiet=True))
        == 0
    )
    found = load(tmp_path / "x").groupby(["method", "seed", "step"])["test_loss"].first().unstack(0)
    assert found.notna().all(axis=None)
    assert (found.iloc[:, 0] - found.iloc[:, 1]).abs().max() > 1e-5


def test_all_shapes_and_sharpnesses_are_one_program(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        build, "trainer", lambda *args, of=build.trainer: made.append(args) or of(*args)
    )
    changes = SMALL | {"cpr.max_reset": 0.2, "cpr.every": 6, "cpr.decay": 0.5}
    chosen = get("permuted_digits_shape_kappa").override(**changes)
    chosen = chosen.override(lanes={"shape": [0, 1, 2, 3], "sharpness": [0.0, 1.0, math.inf]})
    assert launch.run(chosen, ["cpr"], [5], tmp_path / "all", RunOptions(quiet=True)) == 0
    assert len(made) == 1
    found = load(tmp_path / "all")
    assert found.groupby(["hyper_shape", "hyper_sharpness"]).ngroups == 12
    last = found[found.task == 1].set_index(["hyper_shape", "hyper_sharpness"])["test_loss"]
    # Without sharpness all shapes are 1, with infinite sharpness the step.
    np.testing.assert_allclose(last[:, 0.0], last[0, 0.0], rtol=1e-5)
    np.testing.assert_allclose(last[:, math.inf], last[0, math.inf], rtol=1e-5)
    assert np.diff(np.sort([*last[:, 1.0], last[0, 0.0], last[0, math.inf]])).min() > 1e-4
    alone = get("permuted_digits").override(**changes, **{"cpr.shape": "softplus"})
    alone = alone.override(**{"cpr.sharpness": 1.0})
    launch.run(alone, ["cpr"], [5], tmp_path / "alone", RunOptions(quiet=True))
    np.testing.assert_allclose(
        load(tmp_path / "alone")["test_loss"].iloc[-1], last[2, 1.0], rtol=1e-5
    )
