"""The paper's grids, against its tables as `continual table` shows them, and the presets."""

import json
import re
from importlib import resources

import jax
import pytest

from continual_learning.paper import grids as paper
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, registry
from continual_learning.studies.runner import Lanes
from continual_learning.sweeps.grid import parse_range, value_of
from continual_learning.sweeps.plan import programs

EACH = [(name, method) for name, methods in paper.GRIDS.items() for method in methods]
TABLES = ("hyper_sweep", "mt1_reset_params", "minatar_reset_params", "cmw_reset_params")


def printed():
    """{(experiment, method, setting): the values of the paper's table}."""
    text = resources.files("continual_learning.paper").joinpath("settings.json")
    found = {}
    for table in TABLES:
        for row in json.loads(text.read_text())[table]:
            search = row["search"].split(" (")[0]
            match = re.fullmatch(r"(\S+) to (\S+)", search)
            if match:
                step = re.search(r"step ([\d.]+)", row["search"])
                assert step
                values = parse_range(f"{match[1]}:{match[2]}:{step[1]}") or []
            else:
                texts = search.split(", ")
                values = [None if text == "None" else float(text) for text in texts]
            for experiment in row["experiments"]:
                for name in row["ours"]:
                    found[(experiment, *name.split("."))] = values
    return found


def test_the_grids_are_those_of_the_tables():
    ours = {
        (experiment, method, name): values
        for experiment, method in EACH
        for name, values in paper.GRIDS[experiment][method].items()
    }
    tables = printed()
    assert ours.keys() == tables.keys()
    more = {key: [v for v in ours[key] if v not in tables[key]] for key in ours}
    # What the paper selected, though its range misses it.
    robots = ("slippery_ant", "slippery_humanoid")
    added = {
        (robot, method, "threshold"): [0.5] for robot in robots for method in ("redo", "regrama")
    }
    assert {key: values for key, values in more.items() if values} == added
    assert all(set(tables[key]) <= set(ours[key]) for key in ours)
    assert len(tables["slippery_ant", "redo", "threshold"]) == 8


@pytest.mark.parametrize(("name", "method"), EACH)
def test_what_was_selected_is_in_the_grid(name, method):
    experiment = registry.get(name)
    for setting, values in paper.grid(experiment, method).values.items():
        own = value_of(experiment, method, setting)
        assert own in values, setting
        assert type(own) in map(type, values)


@pytest.mark.parametrize(("name", "method"), EACH)
def test_the_grids_run_in_one_program_or_two(name, method):
    experiment = registry.get(name)
    configurations = paper.grid(experiment, method).configurations()
    found = programs(experiment, method, configurations, range(1000, 1005))
    assert len(found) == (2 if method in ("redo", "regrama") else 1)
    assert sum(study.lanes for study in found) == 5 * len(configurations)


SMALL = {
    "slippery_ant": {
        "tasks": 2,
        "iterations_per_task": 1,
        "iterations_per_chunk": 1,
        "environments": 2,
        "rollout": 4,
        "minibatches": 2,
        "epochs": 1,
        "policy_hidden": (8,),
        "value_hidden": (8,),
    },
    "continual_minatar": {
        "tasks": 2,
        "vector_steps_per_task": 4,
        "steps_per_row": 4,
        "rows_per_chunk": 1,
        "environments": 2,
        "capacity": 12,
        "batch": 2,
        "replay_ratio": 1,
        "learning_starts": 2,
        "channels": (2,),
        "eval_every": 4,
        "eval_episodes": 1,
        "hidden": (4,),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_all_lanes_are_one_program(name):
    """Every number of the grids may be traced, and the state after a chunk is of the same kind."""
    experiment = registry.get(name).override(**SMALL[name])
    with jax.numpy_rank_promotion("allow"):  # as Brax's code relies on
        for method in paper.GRIDS[name]:
            configurations = paper.grid(experiment, method).configurations()
            for study in programs(experiment, method, configurations, [1000]):
                trainer = build.trainer(experiment, method, build.data(experiment))
                arguments = Lanes(study.seeds).keys(), study.arrays(), trainer.data
                first = jax.eval_shape(jax.vmap(trainer.init, (0, 0, None)), *arguments)
                chunk = jax.vmap(trainer.chunk, (0, 0, None))
                after, rows = jax.eval_shape(chunk, first, *arguments[1:])
                assert rows["step"].shape[0] == study.lanes
                assert jax.tree.map(_kind, first) == jax.tree.map(_kind, after)


def _kind(x):
    return x.shape, x.dtype


def test_sizes():
    sizes = {(name, method): len(paper.grid(registry.get(name), method)) for name, method in EACH}
    assert sizes["slippery_ant", "cpr"] == 2 * 9 * 3
    assert sizes["slippery_humanoid", "redo"] == 9 * 3 * 3
    assert sizes["mt1", "regrama"] == 3 * 3 * 2


def test_where_there_is_no_grid():
    with pytest.raises(StudyError, match=r"no grid of cpr on permuted_mnist. It has one on slip"):
        paper.grid(registry.get("permuted_mnist"), "cpr")
