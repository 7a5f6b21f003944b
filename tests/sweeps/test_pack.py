"""How many lanes fit: the search on lines that are known, and a program that is compiled."""

import contextlib
import math

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, registry, runner
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.sweeps import pack
from continual_learning.sweeps.pack import Line, fit
from continual_learning.sweeps.plan import lanes_of, programs

SPEC = registry.get("permuted_digits").override(
    tasks=2, examples_per_task=64, hidden=(8,), diagnostics=False
)


def test_a_line():
    line = Line.through({2: 14, 5: 20, 1: 99})
    assert line == Line(10, 2) and line.at(7) == 24 and line.most(24.9) == 7
    assert Line.through({2: 14}) == Line(0, 7)  # more than there is to share: cautious


@given(
    lanes=st.integers(1, 500),
    fixed=st.integers(0, 1000),
    per_lane=st.integers(1, 100),
    limit=st.integers(1, 5000),
)
def test_the_blocks_of_a_line(lanes, fixed, per_lane, limit):
    asked = []

    def bytes_at(count):
        asked.append(count)
        return fixed + per_lane * count

    most = min(lanes, (limit - fixed) // per_lane)
    if most < 1:
        with pytest.raises(StudyError, match="program of a single lane needs"):
            fit(lanes, limit, bytes_at)
        return
    found = fit(lanes, limit, bytes_at)
    assert found.needed == bytes_at(found.size) <= limit
    assert -(-lanes // found.size) == -(-lanes // most)  # as few blocks as can be
    assert len(asked) <= 6 and max(asked) <= lanes


def test_a_program_that_is_larger_than_its_line_is_not_believed():
    found = fit(100, 1000, lambda n: 10 * n if n < 60 else 20 * n)
    assert found.needed <= 1000 and found.size >= 34


@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 40, 300])
@pytest.mark.parametrize("most", [1, 2, 5, 30])
def test_a_program_that_cannot_even_be_compiled_is_too_large(lanes, most):
    asked = []

    def bytes_at(count):
        asked.append(count)
        return 10 * count if count <= most else math.inf

    found = fit(lanes, 10_000, bytes_at)
    assert min(lanes, most) / 2 <= found.size <= most
    assert found.needed == 10 * found.size and math.inf not in found.measured.values()
    assert len(asked) == len(set(asked)) <= 6


def test_nothing_can_be_compiled():
    with pytest.raises(
        StudyError,
        match=r"The program of a single lane needs more than there is; of this device it may take "
        r"1 kB\. Use fewer environments, .*`--scale`, or a device with more memory\. `--memory`",
    ):
        fit(8, 1000, lambda count: math.inf)


@pytest.mark.parametrize("error", ["RESOURCE_EXHAUSTED: 1 GB", "INTERNAL: else"])
def test_a_compiler_without_memory(study, monkeypatch, error):
    def memory(self):
        if len(self._lanes.seeds) > 2:
            raise jax.errors.JaxRuntimeError(error)
        return 100

    monkeypatch.setattr(runner.Compiled, "memory", memory)
    if error.startswith("INTERNAL"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="else"):
            pack.blocks(study, limit=10_000)
    else:
        parts, found = pack.blocks(study, limit=10_000)
        assert found.size == 2 and [each.lanes for each in parts] == [2, 2, 2, 2]


@pytest.fixture(scope="module")
def study():
    settings = [{"learning_rate": 0.1 / k} for k in range(1, 5)]
    [found] = programs(SPEC, "adam", settings, [1000, 1001])
    return found


def compiled(experiment, study, counts):
    """{lanes: bytes by the compiler's plan}."""
    trainer = build.trainer(experiment, study.methods[0], build.data(experiment))
    found = {}
    for count in counts:
        part = lanes_of(study, 0, count)
        lanes = Lanes(part.seeds, part.arrays(), jax.local_devices()[:1])
        with contextlib.closing(program_of(trainer, lanes)) as program:
            found[count] = program.memory()
    return found


@pytest.fixture(scope="module")
def measured(study):
    return compiled(SPEC, study, (2, 5, 8))


def test_the_prediction_is_within_a_tenth(measured):
    line = Line.through({2: measured[2], 5: measured[5]})
    assert line.at(8) == pytest.approx(measured[8], rel=0.1)


@pytest.mark.slow
def test_the_prediction_of_a_program_that_is_run():
    jax.config.update("jax_disable_most_optimizations", False)
    experiment = registry.get("random_labels").at_scale("smoke")
    settings = [{"max_reset": 0.1 / k} for k in range(1, 9)]
    [study] = programs(experiment, "cpr", settings, [1000, 1001])
    found = compiled(experiment, study, (2, 8, 16))
    assert Line.through({2: found[2], 8: found[8]}).at(16) == pytest.approx(found[16], rel=0.1)


def test_the_state_is_part_of_it(study, measured):
    """What is measured is at least what must be there: states and data."""
    trainer = build.trainer(SPEC, "adam", build.data(SPEC))
    states = jax.eval_shape(
        jax.vmap(trainer.init, (0, 0, None)),
        Lanes(study.seeds).keys(),
        study.arrays(),
        trainer.data,
    )
    least = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves((states, trainer.data)))
    assert least < measured[8] < 100 * least


def test_too_much_is_divided(study, measured, monkeypatch):
    asked = []

    def planned(lanes):
        asked.append(lanes)
        return measured[5] * lanes // 5  # as if all were the lanes'

    class Program:
        def __init__(self, trainer, lanes):
            self.lanes = len(lanes.seeds)

        def memory(self):
            return planned(self.lanes)

        def close(self):
            pass

    monkeypatch.setattr(pack, "program_of", Program)
    blocks, found = pack.blocks(study, limit=int(1.02 * measured[5]))
    assert found is not None and found.size == 4 and asked == [2, 4]
    assert [block.lanes for block in blocks] == [4, 4]
    assert blocks[0].seeds + blocks[1].seeds == study.seeds  # pyright: ignore
    with pytest.raises(
        StudyError, match=r"a single lane needs [\d.]+ kB; of this device it may take 1 kB\. Use"
    ):
        pack.blocks(study, limit=1000)


def test_a_device_that_does_not_say_what_it_needs(study, monkeypatch):
    def unknown(lowered):
        raise NotImplementedError("This device does not say what a program needs.")

    monkeypatch.setattr(runner, "planned_bytes", unknown)
    with pytest.raises(StudyError, match=r"does not say what a program needs\. .*--lanes"):
        pack.blocks(study)


def test_lanes_that_are_said_are_not_measured(study, monkeypatch):
    monkeypatch.setattr(build, "trainer", None)
    blocks, found = pack.blocks(study, most=3)
    assert found is None and [block.lanes for block in blocks] == [2, 3, 3]


def test_sizes_in_words():
    assert [pack.size_of(x) for x in (12, 1234, 5.6e6, 140e9)] == [
        *("12 bytes", "1.23 kB", "5.6 MB", "140 GB")
    ]


def test_there_is_memory():
    assert 1e8 < pack.available() < 1e15
