"""Task streams: what is in a task, and that a stream is one program."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning.envs import SupervisedStream

FEATURES, CLASSES = 6, 10
PERMUTED = SupervisedStream("permuted", CLASSES, FEATURES)
SPLIT = SupervisedStream("split", CLASSES, FEATURES, 3)
INCREMENTAL = SupervisedStream("class_incremental", CLASSES, FEATURES, 4)
STREAMS = pytest.mark.parametrize("stream", [PERMUTED, SPLIT, INCREMENTAL], ids=lambda s: s.kind)

_rng = np.random.default_rng(0)
LABELS = jnp.asarray(_rng.permutation(np.repeat(np.arange(CLASSES), np.arange(3, 13))), jnp.int32)
IMAGES = jnp.asarray(_rng.integers(0, 256, (len(LABELS), FEATURES)), jnp.uint8)
keys = st.integers(0, 2**32 - 1).map(jax.random.key)
tasks = st.integers(0, 2**31 - 1)
draw = jax.jit(SupervisedStream.task, static_argnums=0)
batch = jax.jit(SupervisedStream.batch, static_argnums=(0, 5))


@partial(jax.jit, static_argnums=(0, 4))
def visits(stream, task, images, first, size):
    """`len(LABELS)` batches in a row, at least an epoch."""
    steps = first + jnp.arange(len(LABELS))
    return jax.vmap(lambda step: stream.batch(task, images, LABELS, step, size))(steps)


def equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def classes_of(stream, seed, t):
    return set(np.flatnonzero(draw(stream, jax.random.key(seed), t, LABELS).classes).tolist())


@STREAMS
@given(key=keys, t=tasks)
def test_a_task_is_well_formed(stream, key, t):
    task = draw(stream, key, t, LABELS)
    np.testing.assert_array_equal(np.sort(task.pixels), np.arange(FEATURES))
    np.testing.assert_array_equal(np.sort(task.order), np.arange(len(LABELS)))
    included = np.asarray(task.classes)[np.asarray(LABELS)[task.order]]
    assert included[: int(task.count)].all() and not included[int(task.count) :].any()
    types = [jnp.int32, jnp.int32, jnp.int32, jnp.bool, jnp.int32]
    assert [leaf.dtype for leaf in task] == types
    np.testing.assert_array_equal(task.labels, LABELS)
    if stream.kind != "permuted":
        np.testing.assert_array_equal(task.pixels, np.arange(FEATURES))


@STREAMS
@pytest.mark.parametrize("size", [1, 7, 80])
@given(key=keys, t=tasks, first=st.integers(0, 2**31 - 100))
def test_every_example_once_per_epoch(stream, size, key, t, first):
    """In `count` successive batches every example of the task comes `size` times, and no other."""
    numbers = jnp.broadcast_to(jnp.arange(float(len(LABELS)))[:, None], IMAGES.shape)
    task = draw(stream, key, t, LABELS)
    x, y = visits(stream, task, numbers, first, size)
    epochs = slice(0, int(task.count))
    visited = np.asarray(x)[epochs, :, 0].astype(int).ravel()
    expected = np.where(np.asarray(task.classes)[LABELS], size, 0)
    np.testing.assert_array_equal(np.bincount(visited, minlength=len(LABELS)), expected)
    np.testing.assert_array_equal(np.asarray(y)[epochs].ravel(), np.asarray(LABELS)[visited])


@STREAMS
def test_visits_wrap_around(stream):
    task = draw(stream, jax.random.key(0), 1, LABELS)
    _, y = visits(stream, task, IMAGES, 0, 4)
    by_hand = np.asarray(task.order)[np.arange(y.size) % int(task.count)]
    np.testing.assert_array_equal(y.ravel(), np.asarray(LABELS)[by_hand])


def test_long_tasks_do_not_overflow():
    """Step 2³¹ − 1 of a task of 60,000 examples, with batches of a whole epoch and one more."""
    labels = jnp.arange(60_000) % CLASSES
    task = PERMUTED.task(jax.random.key(0), 0, labels)
    images = jnp.zeros((60_000, FEATURES), jnp.uint8)
    step, size = 2**31 - 1, 60_001
    _, y = PERMUTED.batch(task, images, labels, step, size)
    np.testing.assert_array_equal(y, labels[task.order[(step * size + np.arange(size)) % 60_000]])


@given(key=keys, t=tasks, step=st.integers(0, 1000))
def test_permutation_undone_gives_the_images(key, t, step):
    task = draw(PERMUTED, key, t, LABELS)
    back = np.argsort(task.pixels)
    x, y = batch(PERMUTED, task, IMAGES, LABELS, step, 5)
    index = np.asarray(task.order)[(5 * step + np.arange(5)) % len(LABELS)]
    np.testing.assert_array_equal(np.round(255 * np.asarray(x)[:, back]), IMAGES[index])
    np.testing.assert_array_equal(y, LABELS[index])
    x, y, weight = PERMUTED.held_out(task, IMAGES, LABELS)
    np.testing.assert_array_equal(np.round(255 * np.asarray(x)[:, back]), IMAGES)
    np.testing.assert_array_equal(y, LABELS)
    np.testing.assert_array_equal(weight, 1)


@STREAMS
def test_bytes_and_floats_give_the_same(stream):
    task = stream.task(jax.random.key(0), 0, LABELS)
    scaled = IMAGES.astype(jnp.float32) / 255
    equal(stream.batch(task, IMAGES, LABELS, 2, 7), stream.batch(task, scaled, LABELS, 2, 7))
    x, y = stream.batch(task, IMAGES, LABELS, 2, 7)
    assert (x.dtype, x.shape, y.dtype, y.shape) == (jnp.float32, (7, FEATURES), jnp.int32, (7,))
    assert x.min() >= 0 and x.max() <= 1
    equal(stream.held_out(task, IMAGES, LABELS), stream.held_out(task, scaled, LABELS))


def test_first_task_may_keep_the_pixels():
    stream = SupervisedStream("permuted", CLASSES, FEATURES, first_identity=True)
    key = jax.random.key(3)
    identity = stream.task(key, 0, LABELS)
    np.testing.assert_array_equal(identity.pixels, np.arange(FEATURES))
    equal(identity.order, PERMUTED.task(key, 0, LABELS).order)
    equal(stream.task(key, 1, LABELS), PERMUTED.task(key, 1, LABELS))
    assert (PERMUTED.task(key, 0, LABELS).pixels != np.arange(FEATURES)).any()


def test_split_draws_its_classes_anew():
    drawn = [classes_of(SPLIT, seed, t) for seed in range(20) for t in range(10)]
    assert all(len(classes) == 3 for classes in drawn)
    assert len({frozenset(classes) for classes in drawn}) > 60  # of 120 sets, 97 are expected
    counts = np.bincount([each for classes in drawn for each in classes], minlength=CLASSES)
    assert np.all(np.abs(counts - 60) < 30)  # more than four standard deviations


@pytest.mark.parametrize("seed", range(3))
def test_classes_are_added_until_all_are_there(seed):
    first, second, third, fresh, *_ = (classes_of(INCREMENTAL, seed, t) for t in range(5))
    assert [len(first), len(second), len(third), len(fresh)] == [4, 8, 10, 4]
    assert first < second < third


def test_each_round_of_classes_has_a_fresh_order():
    firsts = [classes_of(INCREMENTAL, 0, 3 * cycle) for cycle in range(8)]
    assert len({frozenset(classes) for classes in firsts}) > 4


@STREAMS
def test_held_out_weights(stream):
    task = stream.task(jax.random.key(1), 1, LABELS)
    x, y, weight = stream.held_out(task, IMAGES, LABELS)
    np.testing.assert_array_equal(weight, np.isin(LABELS, np.flatnonzero(task.classes)))
    assert weight.dtype == jnp.float32 and weight.sum() == task.count
    part = stream.held_out(task, IMAGES[5:9], LABELS[5:9])
    equal(part, (x[5:9], y[5:9], weight[5:9]))


@STREAMS
def test_seeds_and_tasks_differ(stream):
    orders = {
        tuple(draw(stream, jax.random.key(seed), t, LABELS).order.tolist())
        for seed in range(3)
        for t in range(3)
    }
    assert len(orders) == 9


@STREAMS
def test_the_same_however_it_is_called(stream):
    """One by one, jitted, vmapped over seeds and scanned over tasks."""
    seeds = jax.random.split(jax.random.key(0), 3)

    def visit(key, t):
        task = stream.task(key, t, LABELS)
        return task, stream.batch(task, IMAGES, LABELS, t + 5, 4)

    def scanned(key):
        return jax.lax.scan(lambda _, t: (None, visit(key, t)), None, jnp.arange(4))[1]

    jitted, together = jax.jit(visit), jax.jit(jax.vmap(scanned))(seeds)
    equal(jitted(seeds[0], 1), visit(seeds[0], 1))
    for s, key in enumerate(seeds):
        for t in range(4):
            alone = jitted(key, t)
            equal(alone, jax.tree.map(lambda leaf, s=s, t=t: leaf[s, t], together))


@STREAMS
def test_nothing_is_traced_again(stream):
    traces = []

    @jax.jit
    def run(key, t, step):
        traces.append(t)
        task = stream.task(key, t, LABELS)
        return stream.batch(task, IMAGES, LABELS, step, 4), stream.held_out(task, IMAGES, LABELS)

    for t in range(5):
        run(jax.random.key(t), jnp.int32(t), jnp.int32(7 * t))
    assert len(traces) == 1


def test_the_data_set_is_not_copied():
    """Batches of 64 seeds from MNIST, compiled: far less memory than one copy of the images."""
    stream, seeds, size = SupervisedStream("permuted", 10, 784), 64, 8
    images = jax.ShapeDtypeStruct((60_000, 784), jnp.uint8)
    labels = jax.ShapeDtypeStruct((60_000,), jnp.int32)
    task = jax.eval_shape(stream.task, jax.random.key(0), 0, labels)
    tasks = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((seeds, *leaf.shape), leaf.dtype), task)

    def batches(tasks, images, labels, step):
        return jax.vmap(lambda task: stream.batch(task, images, labels, step, size))(tasks)

    memory = jax.jit(batches).lower(tasks, images, labels, 0).compile().memory_analysis()
    assert memory.temp_size_in_bytes < images.size / 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "rotated"}, r"\['permuted', 'split', .*\], got 'rotated'"),
        ({"kind": "split"}, "split stream needs classes_per_task from 1 to 10, got None"),
        ({"kind": "class_incremental", "classes_per_task": 0}, "from 1 to 10, got 0"),
        ({"kind": "split", "classes_per_task": 11}, "from 1 to 10, got 11"),
        ({"kind": "permuted", "classes_per_task": 2}, "leave classes_per_task out, got 2"),
        ({"kind": "permuted", "classes": 0}, "classes must be at least 1, got 0"),
        ({"kind": "permuted", "features": 0}, "features must be at least 1, got 0"),
        (
            {"kind": "split", "classes_per_task": 2, "first_identity": True},
            "in a split stream no task moves the pixels",
        ),
    ],
)
def test_bad_streams(arguments, message):
    with pytest.raises(ValueError, match=message):
        SupervisedStream(**{"classes": CLASSES, "features": FEATURES} | arguments)


def test_bad_arrays():
    task = PERMUTED.task(jax.random.key(0), 0, LABELS)
    with pytest.raises(ValueError, match=r"images must be \[n, 6\] .* got \[75, 5\] and \[75\]"):
        PERMUTED.batch(task, IMAGES[:, :5], LABELS, 0, 4)
    with pytest.raises(ValueError, match=r"got \[75, 6\] and \[70\]"):
        PERMUTED.held_out(task, IMAGES, LABELS[:70])
    with pytest.raises(ValueError, match="made for 75 training examples, got 70"):
        PERMUTED.batch(task, IMAGES[:70], LABELS[:70], 0, 4)
    with pytest.raises(ValueError, match=r"floats in \[0, 1\], or uint8 in 0 … 255, got int32"):
        PERMUTED.held_out(task, IMAGES.astype(jnp.int32), LABELS)


MEMORY = SupervisedStream("random_labels", CLASSES, FEATURES, examples=20)


def test_random_labels_are_new_in_every_task_and_the_same_in_every_visit():
    key = jax.random.key(0)
    one, two = (draw(MEMORY, key, t, LABELS) for t in (0, 1))
    assert int(one.count) == 20 and (one.labels != two.labels).any()
    assert set(np.asarray(one.labels).tolist()) <= set(range(CLASSES))
    np.testing.assert_array_equal(one.labels, draw(MEMORY, key, 0, LABELS).labels)
    for step in (0, 4):  # five batches of four are an epoch
        x, y = batch(MEMORY, one, IMAGES, LABELS, step + 1, 4)
        index = one.order[4 * ((step + 1) % 5) : 4 * ((step + 1) % 5) + 4]
        np.testing.assert_array_equal(y, one.labels[index])
        np.testing.assert_allclose(x, IMAGES[index] / 255, rtol=1e-6)


@pytest.mark.parametrize("stream", [MEMORY, SPLIT, PERMUTED], ids=lambda s: s.kind)
def test_the_examples_of_a_task(stream):
    task = draw(stream, jax.random.key(1), 3, LABELS)
    x, y, weight = stream.examples_of(task, IMAGES)
    count = int(task.count)
    assert len(x) == (20 if stream is MEMORY else len(LABELS))
    np.testing.assert_array_equal(weight, np.arange(len(x)) < count)
    np.testing.assert_array_equal(y, task.labels[task.order[: len(x)]])
    images = IMAGES[task.order[: len(x)]][:, task.pixels] / 255
    np.testing.assert_allclose(x, images, rtol=1e-6)


def test_a_task_of_fewer_examples_repeats_them():
    few = SupervisedStream("permuted", CLASSES, FEATURES, examples=6)
    task = draw(few, jax.random.key(0), 0, LABELS)
    first, again = (batch(few, task, IMAGES, LABELS, step, 6)[0] for step in (0, 1))
    np.testing.assert_array_equal(first, again)
    with pytest.raises(ValueError, match="examples must be at least 1, got 0"):
        SupervisedStream("permuted", CLASSES, FEATURES, examples=0)
