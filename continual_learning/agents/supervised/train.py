"""Continual supervised learning: a classifier on a stream of tasks, with one task per chunk."""

from __future__ import annotations

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.agents.common.network import value_and_grads
from continual_learning.agents.common.statistics import in_last_row
from continual_learning.agents.common.trainer import Hyper, MakeOptimizer, Trainer
from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.diagnostics import norm_metrics, plasticity_metrics, rank_metrics, totals
from continual_learning.envs.catalog import Examples
from continual_learning.optim import trace_units

# The uses of a seed's key.
NETWORK, STREAM, HEAD = range(3)


class ClassifierState(NamedTuple):
    """The state that the next task reads.

    Attributes:
      key: the key of the seed, which never changes.
      params: the parameters of the network.
      optimizer: the state of the optimizer.
      task: int32 [], the number of tasks done.
    """

    key: jax.Array
    params: Any
    optimizer: Any
    task: jax.Array


class ClassifierData(NamedTuple):
    """Images [n, features] and labels int32 [n] of the training and the test set."""

    train_images: jax.Array | np.ndarray
    train_labels: jax.Array | np.ndarray
    test_images: jax.Array | np.ndarray
    test_labels: jax.Array | np.ndarray

    @classmethod
    def of(cls, dataset: Any) -> ClassifierData:
        """Return the arrays of a `Dataset`."""
        return cls(*(np.asarray(getattr(dataset, name)) for name in cls._fields))


def classifier(
    network: nn.Module,
    problem: Examples,
    optimizer: MakeOptimizer,
    config: ClassifierConfig,
    *,
    tasks: int,
    sample_scores: bool = False,
) -> Trainer:
    """Return a trainer on a stream of tasks.

    Every row has the diagnostics, except the ranks, which are expensive: they are in the last row
    of a task and NaN in the others.

    Args:
      network: a module of images [batch, features] -> logits, with an output layer `output`.
      problem: the tasks and their data set.
      optimizer: the function that makes the optimizer from the units of the network.
      config: the sizes. If the output layer is drawn anew, the moments of its optimizer stay.
      tasks: the number of tasks of the run.
      sample_scores: whether the reset method gets per-sample scores.
    """
    stream, measured_on = problem.stream, problem.measure
    data = ClassifierData.of(problem.dataset)
    examples = min(len(data.train_labels), stream.examples or len(data.train_labels))
    steps_per_task = config.epochs * (examples // config.batch_size)
    image = jax.ShapeDtypeStruct((1, data.train_images.shape[1]), jnp.float32)
    shapes = jax.eval_shape(network.init, jax.random.key(0), image)
    units = trace_units(network.apply, shapes, image)
    forward = units.with_features(network.apply)
    head = [path for path in shapes["params"] if path == "output"]
    if config.redraw_head and not head:
        raise ValueError(
            "redraw_head needs an output layer called 'output'; the network has "
            f"{', '.join(shapes['params'])}."
        )

    def init(key: jax.Array, hyper: Hyper, data: ClassifierData) -> ClassifierState:
        params = network.init(jax.random.fold_in(key, NETWORK), jnp.zeros(image.shape))
        state = optimizer(units, hyper).init(params)
        return ClassifierState(key, params, state, jnp.zeros((), jnp.int32))

    def loss(params: Any, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Any]:
        logits, features, _ = forward(params, x)
        each = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return each.mean(), (jnp.mean(jnp.argmax(logits, -1) == y), features)

    gradients = value_and_grads(loss, units if sample_scores else None)

    def chunk(state: ClassifierState, hyper: Hyper, data: ClassifierData) -> Any:
        tx = optimizer(units, hyper)
        task = stream.task(jax.random.fold_in(state.key, STREAM), state.task, data.train_labels)
        params = state.params
        if config.redraw_head:
            key = jax.random.fold_in(jax.random.fold_in(state.key, HEAD), state.task)
            params = _with_new_head(network, params, key, image.shape)

        def step(carry: Any, number: jax.Array) -> Any:
            params, opt = carry
            x, y = stream.batch(
                task, data.train_images, data.train_labels, number, config.batch_size
            )
            (_, (accuracy, features)), grads, scores = gradients(params, x, y)
            value = optax.tree.norm(grads)
            updates, opt = tx.update(
                grads, opt, params, features=features, sample_scores=scores, task=state.task
            )
            return (optax.apply_updates(params, updates), opt), (accuracy, value)

        def row(carry: Any, numbers: jax.Array) -> Any:
            carry, (accuracy, gradient_norm) = jax.lax.scan(step, carry, numbers)
            params, opt = carry
            metrics = {
                "step": state.task * steps_per_task + numbers[-1] + 1,
                "task": state.task,
                "online_accuracy": accuracy.mean(),
                "gradient_norm": gradient_norm.mean(),
                "units_reset": opt.log.total.sum(),
                "layers_skipped": opt.log.skipped.sum(),
            }
            return carry, metrics | evaluate(params, task, data)

        def seen(task: Any, data: ClassifierData) -> tuple[jax.Array, jax.Array, jax.Array]:
            """Return the images, labels and weights on which the network is measured."""
            if measured_on == "test":
                return stream.held_out(task, data.test_images, data.test_labels)
            return stream.examples_of(task, data.train_images)

        def evaluate(params: Any, task: Any, data: ClassifierData) -> dict[str, jax.Array]:
            x, y, weight = seen(task, data)
            logits = jnp.asarray(network.apply(params, x))
            each = optax.softmax_cross_entropy_with_integer_labels(logits, y)

            def mean(values: jax.Array) -> jax.Array:
                return jnp.sum(values * weight) / jnp.sum(weight)

            metrics = {
                f"{measured_on}_accuracy": mean((jnp.argmax(logits, -1) == y).astype(each.dtype)),
                f"{measured_on}_loss": mean(each),
            }
            if not config.diagnostics:
                return metrics
            measured = plasticity_metrics(*forward(params, x[: config.probe])[1:])
            metrics |= {name: jnp.asarray(value) for name, value in totals(measured).items()}
            return metrics | {"parameter_norm": norm_metrics(params)["total"]}

        numbers = jnp.arange(steps_per_task).reshape(config.rows_per_task, -1)
        (params, opt), rows = jax.lax.scan(row, (params, state.optimizer), numbers)
        if config.diagnostics:
            features = forward(params, seen(task, data)[0][: config.probe])[1]
            ranks = totals(rank_metrics(features))
            rows = in_last_row(rows, {name: jnp.asarray(value) for name, value in ranks.items()})
        return ClassifierState(state.key, params, opt, state.task + 1), rows

    return Trainer(init, chunk, config.chunks(tasks), data, f"{measured_on}_accuracy")


def _with_new_head(network: nn.Module, params: Any, key: jax.Array, shape: Any) -> Any:
    """Draw the output layer anew.

    Args:
      network: the network.
      params: its parameters.
      key: the key of the new output layer.
      shape: the shape of an input.
    """
    fresh = network.init(key, jnp.zeros(shape))
    return {"params": {**params["params"], "output": fresh["params"]["output"]}}
