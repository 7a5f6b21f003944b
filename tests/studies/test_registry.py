from typing import Any

import pytest

from continual_learning.schema.errors import StudyError
from continual_learning.studies import methods, registry, spec
from tests.studies.flat import flat

SUPERVISED = [
    "permuted_mnist",
    "permuted_digits",
    "split_mnist",
    "class_incremental_mnist",
    "random_labels",
]
DELAYED = ["delayed_ant", "delayed_ant_constant", "delayed_ant_ramp", "delayed_ant_blind"]
CONTROL = [
    "slippery_ant", "slippery_ant_2025", "slippery_ant_sac", "slippery_humanoid", *DELAYED
]  # fmt: skip
GAMES = ["continual_minatar", "minatar_five", "minatar_cycle", "minatar_ppo"]
HOST = ["continual_metaworld", "mt1", "gymnasium", "gymnasium_ppo"]
NAMES = SUPERVISED + CONTROL + GAMES + HOST


def get(name: str) -> Any:
    return flat(registry.get(name))


def test_names():
    assert registry.names() == NAMES
    assert [registry.get(name).name for name in NAMES] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_valid_at_every_scale_and_round_trip(name):
    each = registry.get(name)
    methods.check(each)
    for scale in ("paper", "short", "smoke"):
        scaled = each.at_scale(scale)
        methods.check(scaled)
        assert scaled.tasks >= 2 or name in HOST[1:]
        assert spec.loads(spec.dumps(scaled)) == scaled
    smallest = 200 if name in SUPERVISED else 20_000
    assert each.at_scale("smoke").tasks * each.at_scale("smoke").steps_per_task <= smallest


def updates(each) -> int:
    """Calls of `update` between two of an optimizer's beginnings."""
    agent: Any = each.agent
    if agent.kind == "classifier":
        return each.steps
    if agent.kind == "ppo":
        return each.tasks * agent.iterations_per_task * agent.epochs * agent.minibatches
    acting = -(-agent.learning_starts // agent.environments)
    return (agent.vector_steps_per_task - acting) * agent.replay_ratio


@pytest.mark.parametrize("name", NAMES)
def test_resets_are_due_at_smoke_scale(name):
    """Seldom enough for the budget, more often than at the scale of the paper."""
    each = registry.get(name, "smoke")
    resets = {m.reset: m.options for m in each.methods.values() if m.reset}
    assert resets
    for reset, options in resets.items():
        every = options["maturity"] if reset == "cbp" else options["every"]
        assert every < updates(each) - 1, reset
    assert registry.get(name).methods == registry.get(name, "paper").methods


def test_permuted_mnist_is_the_papers():
    each = get("permuted_mnist")
    assert (each.dataset, each.change, each.tasks, each.epochs) == ("mnist", "permuted", 200, 1)
    assert (each.batch_size, each.hidden, each.activation) == (8, (128, 128), "relu")
    assert (each.init, each.redraw_head, each.seeds) == ("he_uniform", True, 5)
    assert each.examples_per_task is None
    assert each.steps_per_task == 7500


def test_methods_of_permuted_mnist_are_the_papers():
    methods = get("permuted_mnist").methods
    assert list(methods) == [
        "adam", "adamw", "muon", "cpr", "cbp", "redo", "regrama", "shrink_perturb"
    ]  # fmt: skip
    assert {m.learning_rate for m in methods.values()} == {1e-3}
    assert {m.clip for m in methods.values()} == {0.5}
    resets = {name: m.options for name, m in methods.items() if m.reset is not None}
    assert all(methods[name].reset == name for name in resets)
    assert all(methods[name].optimizer == "adam" for name in resets)
    assert resets == {
        "cpr": {"max_reset": 0.01, "every": 100},
        "cbp": {"replacement_rate": 1e-5, "maturity": 100},
        "redo": {"threshold": 0.5, "every": 1000},
        "regrama": {"threshold": 0.25, "every": 1000},
        "shrink_perturb": {"shrink": 1e-5, "perturb": 1e-5, "every": 1, "kernels_only": True},
    }
    for name in ("adam", "adamw", "muon"):
        assert (methods[name].optimizer, methods[name].reset) == (name, None)


def test_the_others_are_ours_and_differ_only_in_the_stream():
    paper = get("permuted_mnist")
    assert all(get(name).title.endswith("(ours)") for name in SUPERVISED[1:])
    for name in SUPERVISED[1:4]:
        each = get(name)
        for f in ("batch_size", "hidden", "activation", "init", "epochs", "methods", "seeds"):
            assert getattr(each, f) == getattr(paper, f)
    assert get("permuted_digits").dataset == "digits"
    assert get("split_mnist").change == "split"
    assert get("class_incremental_mnist").change == "class_incremental"
    assert get("random_labels").change == "random_labels"


def test_a_file_instead_of_a_name(tmp_path):
    changed = registry.get("permuted_digits").override(name="mine", tasks=3)
    spec.save(changed, tmp_path / "mine.toml")
    assert registry.get(tmp_path / "mine.toml") == changed
    assert registry.get(str(tmp_path / "mine.toml")) == changed


def test_unknown_names():
    with pytest.raises(StudyError, match=r"'permuted_mnst'. Did you mean 'permuted_mnist'.*\.toml"):
        registry.get("permuted_mnst")
    with pytest.raises(StudyError, match="Cannot read"):
        registry.get("folder/permuted_mnist")
