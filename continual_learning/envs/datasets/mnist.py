"""MNIST: found in a folder, else in the cache, else downloaded into the cache."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from continual_learning.envs.datasets.download import download, is_intact
from continual_learning.envs.datasets.idx import count, read_idx
from continual_learning.envs.errors import DatasetError

# SHA-256 of the files after unpacking: copies that were compressed differently are as good.
FILES: Mapping[str, str] = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MIRRORS: Sequence[str] = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "https://raw.githubusercontent.com/fgnt/mnist/master",
)


def load_mnist(folder: Path | None = None) -> list[np.ndarray]:
    """Training images [n, 784], training labels [n], test images and test labels; all uint8."""
    paths = _in_folder(folder) if folder is not None else _in_cache()
    train_images, train_labels, test_images, test_labels = (
        read_idx(path, dimensions=3 if "images" in name else 1) for name, path in paths.items()
    )
    return [_flat(train_images), train_labels, _flat(test_images), test_labels]


def count_in(folder: Path) -> int:
    """How many training examples there are in a folder, of which only a header is read."""
    return count(_in_folder(folder)["train-labels-idx1-ubyte"])


def cache_folder() -> Path:
    """`CONTINUAL_LEARNING_CACHE`, else a folder of ours in the platform's user cache."""
    if chosen := os.environ.get("CONTINUAL_LEARNING_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "continual-learning"


def _flat(images: np.ndarray) -> np.ndarray:
    n, rows, columns = images.shape
    return images.reshape(n, rows * columns)


def _in_folder(folder: Path) -> dict[str, Path]:
    """The files as they are, so that other data in MNIST's format can be used."""
    found = {
        name: path
        for name in FILES
        for path in (folder / f"{name}.gz", folder / name)  # the unpacked one wins
        if path.is_file()
    }
    if missing := [name for name in FILES if name not in found]:
        raise DatasetError(
            f"MNIST is not in {folder}: {', '.join(missing)} (each as it is or with .gz) not "
            "found. Name the folder that has all four files (--data-folder), or name none to use "
            "the cache or a download."
        )
    return found


def _in_cache() -> dict[str, Path]:
    """The files of the cache; those missing or damaged are downloaded."""
    folder = cache_folder() / "mnist"
    paths = {name: folder / f"{name}.gz" for name in FILES}
    for name, path in paths.items():
        if is_intact(path, FILES[name]):
            continue
        try:
            download(path.name, MIRRORS, path, FILES[name])
        except DatasetError as error:
            raise DatasetError(
                f"MNIST is not (or not intact) in the cache folder {folder}, and {error}\n"
                "Without a network: download the four files elsewhere and name their folder "
                "(--data-folder, or folder= in load_dataset). To keep the cache elsewhere, set "
                "CONTINUAL_LEARNING_CACHE."
            ) from error
    return paths
