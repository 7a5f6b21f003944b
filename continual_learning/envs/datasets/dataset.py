"""Data sets of labeled images, as NumPy arrays."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import get_args

import numpy as np

from continual_learning import installation
from continual_learning.envs.datasets.mnist import load_mnist
from continual_learning.envs.errors import DatasetError
from continual_learning.schema.names import DatasetName


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Labeled images, in a training and a test set.

    Bytes stay bytes: on the device they take a quarter of the memory that floats take, and
    `SupervisedStream` scales a batch by 1/255 after it has gathered it.

    Attributes:
      train_images: [n, features], float32 in [0, 1] or uint8 in 0 … 255.
      train_labels: int32 [n] in 0 … classes − 1; every class occurs at least once.
      test_images: the same as the training images.
      test_labels: the same as the training labels.
      classes: the number of classes.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    classes: int

    def __post_init__(self):
        for part in ("train", "test"):
            images, labels = getattr(self, f"{part}_images"), getattr(self, f"{part}_labels")
            if images.dtype not in (np.uint8, np.float32) or images.shape[1:] != (self.features,):
                raise ValueError(
                    f"Dataset: {part}_images must be float32 or uint8 [n, {self.features}], "
                    f"got {images.dtype} {list(images.shape)}."
                )
            if labels.dtype != np.int32 or labels.shape != images.shape[:1]:
                raise ValueError(
                    f"Dataset: {part}_labels must be int32 [{len(images)}], "
                    f"got {labels.dtype} {list(labels.shape)}."
                )
            if not np.array_equal(np.unique(labels), np.arange(self.classes)):
                raise ValueError(
                    f"Dataset: {part}_labels must have each class from 0 to {self.classes - 1} at "
                    f"least once and no other, got {np.unique(labels).tolist()}."
                )

    @property
    def features(self) -> int:
        """The number of pixels of an image."""
        return self.train_images.shape[-1]


def load_dataset(name: DatasetName, folder: Path | None = None) -> Dataset:
    """Load a data set.

    Args:
      name: "mnist" (60,000 training and 10,000 test images of 28×28 pixels, uint8), or "digits"
        (the 1,437 and 360 images of 8×8 pixels, float32, that scikit-learn has; they need no
        download).
      folder: the folder of the four IDX files of MNIST, gzipped or not. Without it, the files are
        taken from the cache, and downloaded into it if they are missing.

    Raises:
      DatasetError: MNIST is missing or damaged and cannot be downloaded.
    """
    if name not in get_args(DatasetName):
        raise ValueError(
            f"load_dataset: name must be one of {list(get_args(DatasetName))}, got {name!r}."
        )
    if name == "mnist":
        return _mnist(folder)
    if folder is not None:
        raise ValueError(
            f"load_dataset: digits come with scikit-learn and are in no folder, got {folder}. "
            "Leave the folder out, or load 'mnist'."
        )
    return _digits()


def _mnist(folder: Path | None) -> Dataset:
    train_images, train_labels, test_images, test_labels = load_mnist(folder)
    labels = (train_labels.astype(np.int32), test_labels.astype(np.int32))
    try:
        return Dataset(train_images, labels[0], test_images, labels[1], classes=10)
    except ValueError as error:
        raise DatasetError(f"The files in {folder} do not fit together. {error}") from error


def _digits() -> Dataset:
    """Return the digits; the test set is every fifth image of every class."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "The digits come with scikit-learn, which is not installed: "
            f"{installation.command('demo')}"
        ) from error
    pixels, targets = load_digits(return_X_y=True)
    images, labels = np.asarray(pixels, np.float32) / 16, np.asarray(targets, np.int32)
    test = np.zeros(len(labels), bool)
    test[np.argsort(labels, kind="stable")[::5]] = True
    return Dataset(images[~test], labels[~test], images[test], labels[test], classes=10)
