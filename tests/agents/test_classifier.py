"""The classifier: it learns, tasks change without a new program, the head is drawn anew."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.agents.supervised.train import STREAM, ClassifierData, classifier
from continual_learning.envs.catalog import Examples
from continual_learning.envs.datasets.stream import SupervisedStream
from continual_learning.networks import MLP
from continual_learning.optim import CPR, NoReset, attach_reset_method

FEATURES, CLASSES = 6, 3


def data(n=96, seed=0):
    """Classes that a linear network can tell apart."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n, dtype=np.int32) % CLASSES
    centers = np.array([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]], np.float32)
    images = np.clip(centers[labels] + rng.normal(size=(n, FEATURES)) * 0.1, 0, 1)
    images = images.astype(np.float32)
    return ClassifierData(*map(jnp.asarray, (images[:72], labels[:72], images[72:], labels[72:])))


def trainer(method=None, traces=None, stream=None, measure="test", sample_scores=False, **options):
    """A task has 72 examples: 36 steps."""
    method = method or NoReset()
    config = ClassifierConfig(**{"epochs": 2, "batch_size": 4, "rows_per_task": 2} | options)

    def optimizer(units, hyper):
        if traces is not None:
            traces.append(units)
        rate = hyper.get("learning_rate", 1e-2)
        return attach_reset_method(tx=optax.adam(rate), reset_method=method, units=units)

    stream = stream or SupervisedStream("permuted", CLASSES, FEATURES)
    problem = Examples(stream, data(), measure)
    network = MLP((16,), CLASSES)
    return classifier(network, problem, optimizer, config, tasks=3, sample_scores=sample_scores)


@pytest.fixture(scope="module")
def run():
    """Three tasks of two seeds: (rows, how often the program was traced)."""
    traces = []
    program = trainer(CPR(every=10, max_reset=0.1), traces)
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    state = jax.vmap(program.init, (0, None, None))(keys, {}, program.data)
    chunk = jax.jit(jax.vmap(program.chunk, (0, None, None)))
    traces.clear()
    rows = []
    for _ in range(3):
        state, out = chunk(state, {}, program.data)
        rows.append(out)
    return rows, len(traces)


def test_it_learns_every_task(run):
    rows, _ = run
    for out in rows:
        assert (out["test_accuracy"][:, -1] > 0.9).all()
        assert (out["online_accuracy"][:, 1] >= out["online_accuracy"][:, 0]).all()


def test_rows(run):
    rows, _ = run
    assert rows[1]["step"].tolist() == [[54, 72]] * 2
    assert rows[1]["task"].tolist() == [[1, 1]] * 2
    assert rows[2]["units_reset"][0, -1] > rows[0]["units_reset"][0, -1] > 0
    assert {"dormant_ratio", "linearized_ratio", "srank", "parameter_norm"} <= rows[0].keys()
    ranks = {"srank", "stable_rank", "effective_rank", "feature_rank"}
    for name, values in rows[0].items():
        assert np.isfinite(values[:, -1]).all()  # ranks only there
        assert np.isnan(values[:, 0]).all() if name in ranks else np.isfinite(values).all()


def test_one_program_for_all_tasks(run):
    assert run[1] == 1


def test_the_head_is_drawn_anew_and_only_the_head():
    program = trainer(epochs=1, batch_size=36, rows_per_task=1)
    kept = trainer(epochs=1, batch_size=36, rows_per_task=1, redraw_head=False)
    hyper = {"learning_rate": jnp.float32(0.0)}
    chunk = jax.jit(program.chunk)
    state = program.init(jax.random.key(0), hyper, program.data)
    after, _ = chunk(state, hyper, program.data)
    before, new = (s.params["params"] for s in (state, after))
    np.testing.assert_array_equal(before["hidden_0"]["kernel"], new["hidden_0"]["kernel"])
    assert (before["output"]["kernel"] != new["output"]["kernel"]).any()
    again, _ = chunk(after, hyper, program.data)
    assert (again.params["params"]["output"]["kernel"] != new["output"]["kernel"]).any()
    assert (after.optimizer.inner[0].mu["params"]["output"]["kernel"] != 0).any()
    after, _ = jax.jit(kept.chunk)(state, hyper, kept.data)
    jax.tree.map(np.testing.assert_array_equal, state.params, after.params)


def test_without_diagnostics():
    program = trainer(diagnostics=False, epochs=1, batch_size=36, rows_per_task=1)
    state = jax.eval_shape(program.init, jax.random.key(0), {}, program.data)
    _, rows = jax.eval_shape(program.chunk, state, {}, program.data)
    assert "dormant_ratio" not in rows and "test_accuracy" in rows


def test_per_sample_scores_by_the_gradients_of_single_examples():
    """After one step the utilities are those of per-example norms, over lanes too."""
    method = CPR(score="per_sample", decay=0.0)
    sizes = {"epochs": 1, "batch_size": 72, "rows_per_task": 1, "diagnostics": False}
    program = trainer(method, **sizes, redraw_head=False, sample_scores=True)
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    first = jax.vmap(program.init, (0, None, None))(keys, {}, program.data)
    after, _ = jax.jit(jax.vmap(program.chunk, (0, None, None)))(first, {}, program.data)
    network, stream = MLP((16,), CLASSES), SupervisedStream("permuted", CLASSES, FEATURES)

    def loss(params, x, y):
        logits = network.apply(params, x[None])
        return optax.softmax_cross_entropy_with_integer_labels(logits, y[None])[0]

    for lane in range(2):
        params = jax.tree.map(lambda x, lane=lane: x[lane], first.params)
        seen = program.data
        task = stream.task(jax.random.fold_in(keys[lane], STREAM), jnp.int32(0), seen.train_labels)
        x, y = stream.batch(task, seen.train_images, seen.train_labels, jnp.int32(0), 72)
        each = jax.vmap(jax.grad(loss), (None, 0, 0))(params, x, y)["params"]["hidden_0"]["kernel"]
        norms = jnp.linalg.norm(each, axis=1).mean(0)
        expected = norms / norms.mean()
        np.testing.assert_allclose(after.optimizer.method.utility[lane, 0], expected, rtol=1e-4)
    with pytest.raises(ValueError, match="CPR needs `sample_scores`"):
        without = trainer(method, **sizes)
        jax.eval_shape(without.chunk, jax.tree.map(lambda x: x[0], first), {}, without.data)


def test_accuracy_on_the_examples_of_the_task():
    stream = SupervisedStream("random_labels", CLASSES, FEATURES, examples=8)
    program = trainer(stream=stream, measure="train", epochs=150, rows_per_task=1)
    state = program.init(jax.random.key(0), {}, program.data)
    _, rows = jax.jit(program.chunk)(state, {}, program.data)
    assert program.headline == "train_accuracy" and "test_accuracy" not in rows
    assert rows["train_accuracy"][0] == 1.0  # eight random labels are soon known by heart


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows_per_task": 0}, "rows_per_task must be a whole number above 0; got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number above 0; got 2.5"),
    ],
)
def test_bad_sizes(options, message):
    with pytest.raises(ValueError, match=message):
        trainer(**options)
