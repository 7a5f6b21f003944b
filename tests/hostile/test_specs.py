"""No specification of an experiment is a traceback, a wait, or silently something else."""

import dataclasses
import math
import random

import pytest
import tomli_w

from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import fields_of
from continual_learning.studies import methods, registry, spec
from continual_learning.studies.experiment import Experiment
from tests.hostile import cases

PRESETS = ("permuted_digits", "slippery_ant", "continual_minatar", "gymnasium")
FAST = 23
"""One of so many cases is tried by `make test`."""


def plain(name):
    return spec.to_dict(registry.get(name))


def check_numbers(value, where="spec"):
    """All numbers of a spec that was accepted fit into what they become."""
    if dataclasses.is_dataclass(value):
        for name in fields_of(type(value)):
            check_numbers(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, dict):
        for name, each in value.items():
            check_numbers(each, f"{where}.{name}")
    elif isinstance(value, tuple):
        for each in value:
            check_numbers(each, where)
    elif type(value) is int:
        assert abs(value) < 2**31, (where, value)
    elif type(value) is float and not math.isinf(value):
        assert abs(value) <= bounds.FLOATS and (value == 0 or abs(value) > 1e-38), (where, value)


def tried(data):
    """The spec of a table, or the error; anything else is a failure."""
    with cases.in_time(data):
        try:
            found = spec.from_dict(data)
            methods.check(found)
        except StudyError as error:
            assert len(str(error)) < 3000
            return error
        check_numbers(found)
        return found


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stride", [FAST, pytest.param(1, marks=pytest.mark.slow)])
def test_every_value_at_every_place(preset, stride):
    data, refused, kept = plain(preset), 0, 0
    assert isinstance(tried(data), Experiment)
    for where, value in cases.tables(data)[::stride]:
        found = tried(cases.changed(data, where, value))
        if isinstance(found, StudyError):
            refused += 1
            continue
        kept += 1
        if value in ({}, None):  # as if it were not there
            continue
        # What is accepted is there as it was given, and a number in place of a number.
        old, back = cases.at(data, where), cases.at(spec.to_dict(found), where)
        same = back == value or (type(value) is int and back == float(value))
        assert same and isinstance(value, bool) == isinstance(back, bool), (where, value)
        assert not (isinstance(old, int | float) and isinstance(value, str)), (where, value)
    assert refused > 3 * kept


@pytest.mark.parametrize("name", cases.DOCUMENTS)
def test_a_document_that_is_no_experiment(tmp_path, name):
    text = cases.DOCUMENTS[name]
    with cases.in_time(name), pytest.raises(StudyError) as error:
        spec.loads(text)
    assert len(str(error.value)) < 1000
    if name == "null":
        return
    whole = tomli_w.dumps(plain("permuted_digits")) + "\n[more]\n" + text
    with cases.in_time(name), pytest.raises(StudyError):
        spec.loads(whole)
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(StudyError):
        spec.load(tmp_path / "x.toml")


@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_a_text_with_a_few_other_letters(count):
    rng = random.Random(count)
    text = tomli_w.dumps(plain("slippery_ant"))
    for _ in range(count):
        letters = list(text)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(letters))
            letters[at] = rng.choice(
                ["", "9" * 30, "\n", '"', "[", "{", "=", "-", ".", "e", "\x7f"]
            )
        damaged = "".join(letters)
        with cases.in_time(damaged):
            try:
                check_numbers(spec.loads(damaged))
            except StudyError as error:
                assert len(str(error)) < 3000


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("slippery_ant", {"changes": "friction = uniform(-5, -1)"}, "friction must be at least 0"),
        ("slippery_ant", {"changes": "strength = -1"}, "strength must be at least 0"),
        ("slippery_ant", {"changes": "gravity = 1e39"}, "gravity must be finite in float32"),
        ("delayed_ant", {"changes": "action_delay = 99"}, "action_delay must be from 0 to"),
        ("permuted_digits", {"adam.learning_rate": 1e39}, "learning_rate must be a number above"),
        ("permuted_digits", {"adam.learning_rate": 10**400}, "a whole number of very many digits"),
        ("permuted_digits", {"cpr.max_reset": 10**400}, "a whole number of very many digits"),
        ("permuted_digits", {"cpr.every": 1e300}, "every of cpr must be a number"),
        ("permuted_digits", {"tasks": 2**63}, "at most 100,000"),
        ("permuted_digits", {"hidden": (2**40,)}, "at most 1,048,576"),
        ("permuted_digits", {"seeds": 10**12}, "at most 100,000"),
        ("permuted_digits", {"epochs": 2**30}, "which are counted to 2,147,483,647"),
        ("permuted_digits", {"name": "x" * 300}, "at most 100, got"),
        ("permuted_digits", {"collapse": {"drop": 1, "bin": 1e-300}}, "bin must be a whole number"),
        ("slippery_ant", {"collapse": {"drop": 1, "bin": 1}}, "more than 100,000 bins"),
        ("continual_minatar", {"environments": 2**30}, "at most 1,048,576"),
    ],
)
def test_absurdities(name, change, told):
    with cases.in_time(change), pytest.raises(StudyError, match=told):
        methods.check(registry.get(name).override(**change))


def test_there_are_two_thousand_of_them():
    found = {(n, repr(each)) for n in PRESETS for each in cases.tables(plain(n))}
    assert len(found) > 2000
