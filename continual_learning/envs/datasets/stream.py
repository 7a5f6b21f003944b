"""Streams of classification tasks over one data set, as pure functions.

The data set stays unchanged on the device. A task consists of a few index arrays that depend only
on the key and the number of the task. One program can therefore train on the whole stream: it is
compiled once, with `scan` over tasks and `vmap` over seeds.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp

from continual_learning.schema.names import StreamKind as Kind


class Task(NamedTuple):
    """One task of a stream.

    Attributes:
      pixels: int32 [features]; input i of this task is pixel `pixels[i]` of the image.
      order: int32 [examples], the training examples in the order of their visits. Those that do
        not belong to the task are at the end.
      count: int32 [], how many examples of `order` belong to the task; visits wrap around there.
      classes: bool [classes], the classes of the task.
      labels: int32 [examples], the labels of the training examples in this task.
    """

    pixels: jax.Array
    order: jax.Array
    count: jax.Array  # pyright: ignore[reportIncompatibleMethodOverride]
    classes: jax.Array
    labels: jax.Array


@dataclasses.dataclass(frozen=True)
class SupervisedStream:
    """An endless stream of classification tasks.

    Labels keep their meaning: class 7 is output 7 in every task, except for "random_labels".

    Attributes:
      kind: "permuted": every task has all classes, and the pixels in a new random order.
        "split": the classes of every task are drawn anew, independently of earlier tasks.
        "class_incremental": classes come in a random order. Every task adds `classes_per_task`
        new classes to those of the task before. After the task that has all of them, the stream
        starts over with the first classes of a new order.
        "random_labels": every example gets a new random label in every task, to be memorized.
      classes: the number of classes of the data set.
      features: the number of pixels of an image.
      classes_per_task: the number of (new) classes of a task, for "split" and
        "class_incremental". In the latter, the last task before the stream starts over adds fewer
        classes if `classes` is not a multiple of this number.
      first_identity: whether task 0 leaves the pixels in place, for "permuted".
      examples: the largest number of training examples of a task, which are drawn anew; None for
        all examples.
    """

    kind: Kind
    classes: int
    features: int
    classes_per_task: int | None = None
    first_identity: bool = False
    examples: int | None = None

    def __post_init__(self):
        if self.kind not in get_args(Kind):
            raise ValueError(
                f"SupervisedStream: kind must be one of {list(get_args(Kind))}, got {self.kind!r}."
            )
        for name in ("classes", "features", "examples"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(
                    f"SupervisedStream: {name} must be at least 1, got {getattr(self, name)}."
                )
        if self.kind in ("permuted", "random_labels"):
            if self.classes_per_task is not None:
                raise ValueError(
                    f"SupervisedStream: a {self.kind} stream has all classes in every task; leave "
                    f"classes_per_task out, got {self.classes_per_task}."
                )
        elif self.classes_per_task is None or not 1 <= self.classes_per_task <= self.classes:
            raise ValueError(
                f"SupervisedStream: a {self.kind} stream needs classes_per_task from 1 to "
                f"{self.classes}, got {self.classes_per_task}."
            )
        if self.first_identity and self.kind != "permuted":
            raise ValueError(
                "SupervisedStream: first_identity is for permuted streams; "
                f"in a {self.kind} stream no task moves the pixels."
            )

    def task(self, key: jax.Array, t: jax.typing.ArrayLike, labels: jax.Array) -> Task:
        """Return a task of the stream.

        Args:
          key: the key of the stream, another one for every seed.
          t: int32 [], the number of the task, from 0.
          labels: int [examples], the labels of the training set.
        """
        t = jnp.asarray(t, jnp.int32)
        pixels_key, classes_key, order_key, labels_key = jax.random.split(key, 4)
        classes = self._classes(classes_key, t)
        order = jax.random.permutation(jax.random.fold_in(order_key, t), len(labels))
        included = classes[labels]
        order = order[jnp.argsort(~included[order], stable=True)]
        count = jnp.sum(included, dtype=jnp.int32)
        if self.examples is not None:
            count = jnp.minimum(count, self.examples)
        labels = jnp.asarray(labels, jnp.int32)
        if self.kind == "random_labels":
            key = jax.random.fold_in(labels_key, t)
            labels = jax.random.randint(key, labels.shape, 0, self.classes, jnp.int32)
        return Task(self._pixels(pixels_key, t), order.astype(jnp.int32), count, classes, labels)

    def batch(
        self,
        task: Task,
        images: jax.Array,
        labels: jax.Array,
        step: jax.typing.ArrayLike,
        size: int,
    ) -> tuple[jax.Array, jax.Array]:
        """Return a batch of a task.

        It has the examples number step·size, …, step·size + size − 1 of the task. The count
        continues into the next epoch, which has the same order.

        Args:
          task: the result of `task` with the same labels.
          images: [examples, features], the images of the training set, float32 in [0, 1] or uint8.
          labels: int [examples], the labels of the training set.
          step: int32 [], the number of the batch, from 0.
          size: the number of examples of the batch.

        Returns:
          Inputs float32 [size, features] in [0, 1] and labels int32 [size].
        """
        self._check(images, labels)
        if labels.shape != task.order.shape:
            raise ValueError(
                f"SupervisedStream: the task was made for {len(task.order)} training examples, "
                f"got {len(labels)}; give `batch` the set whose labels `task` was given."
            )
        # Unsigned numbers and the reduction of the step prevent an overflow in long tasks.
        count = task.count.astype(jnp.uint32)
        first = jnp.asarray(step, jnp.uint32) % count * jnp.uint32(size)
        index = task.order[(first + jnp.arange(size, dtype=jnp.uint32)) % count]
        return self._inputs(task, images[index]), task.labels[index]

    def examples_of(self, task: Task, images: jax.Array) -> tuple[jax.Array, ...]:
        """Return the training examples of a task, in the order of their visits.

        Args:
          task: the result of `task`.
          images: [n, features], the images of the training set.

        Returns:
          Inputs float32 [m, features], labels int32 [m], and weights float32 [m], which are 0 for
          examples that are not in the task and else 1. m is `examples`, or n if that is None.
        """
        index = task.order[: self.examples]
        weight = (jnp.arange(len(index)) < task.count).astype(jnp.float32)
        return self._inputs(task, images[index]), task.labels[index], weight

    def held_out(
        self, task: Task, images: jax.Array, labels: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the test set with the inputs of this task.

        To save memory, pass a slice of the set.

        Args:
          task: the result of `task`.
          images: [n, features], the images of the test set, float32 in [0, 1] or uint8.
          labels: int [n], the labels of the test set.

        Returns:
          Inputs float32 [n, features], labels int32 [n], and weights float32 [n], which are 0 for
          examples of classes that are not in the task and else 1.
        """
        self._check(images, labels)
        weight = task.classes[labels].astype(jnp.float32)
        return self._inputs(task, images), labels.astype(jnp.int32), weight

    def _pixels(self, key: jax.Array, t: jax.Array) -> jax.Array:
        identity = jnp.arange(self.features, dtype=jnp.int32)
        if self.kind != "permuted":
            return identity
        pixels = jax.random.permutation(jax.random.fold_in(key, t), identity)
        return jnp.where(t == 0, identity, pixels) if self.first_identity else pixels

    def _classes(self, key: jax.Array, t: jax.Array) -> jax.Array:
        if self.classes_per_task is None:
            return jnp.ones(self.classes, bool)
        if self.kind == "split":
            order, tasks = t, 1
        else:
            tasks = -(-self.classes // self.classes_per_task)  # number of tasks of one order
            order = t // tasks
        present = self.classes_per_task * (t % tasks + 1)
        place = jax.random.permutation(jax.random.fold_in(key, order), self.classes)
        return place < present

    def _inputs(self, task: Task, images: jax.Array) -> jax.Array:
        if self.kind == "permuted":
            images = images[:, task.pixels]
        if images.dtype == jnp.uint8:
            return images.astype(jnp.float32) / 255
        return images.astype(jnp.float32)

    def _check(self, images: jax.Array, labels: jax.Array) -> None:
        # JAX would clamp an index that is out of range without an error.
        if images.shape[1:] != (self.features,) or labels.shape != images.shape[:1]:
            raise ValueError(
                f"SupervisedStream: images must be [n, {self.features}] and labels [n], got "
                f"{list(images.shape)} and {list(labels.shape)}."
            )
        if images.dtype != jnp.uint8 and not jnp.issubdtype(images.dtype, jnp.floating):
            raise ValueError(
                "SupervisedStream: images must be floats in [0, 1], or uint8 in 0 … 255, got "
                f"{images.dtype}."
            )
