"""MNIST, from a folder, or from the cache, into which its files are downloaded if necessary."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from continual_learning import extras
from continual_learning.envs.datasets.idx import count, read_idx
from continual_learning.envs.errors import DatasetError

FILES: Mapping[str, str] = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""The SHA-256 sums of the gzipped files, which the mirrors have."""

MIRRORS: Sequence[str] = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "https://raw.githubusercontent.com/fgnt/mnist/master",
)


def load_mnist(folder: Path | None = None) -> list[np.ndarray]:
    """Return training images [n, 784] and labels [n], test images and test labels; all uint8."""
    paths = _in_folder(folder) if folder is not None else _in_cache()
    train_images, train_labels, test_images, test_labels = (
        read_idx(path, dimensions=3 if "images" in name else 1) for name, path in paths.items()
    )
    return [_flat(train_images), train_labels, _flat(test_images), test_labels]


def count_in(folder: Path) -> int:
    """Return the number of training examples in a folder; only a header is read."""
    return count(_in_folder(folder)["train-labels-idx1-ubyte"])


def cache_folder() -> Path:
    """Return `CONTINUAL_LEARNING_CACHE`, or else our folder in the platform's user cache."""
    chosen = os.environ.get("CONTINUAL_LEARNING_CACHE")
    return Path(chosen or extras.load("pooch").os_cache("continual-learning")).expanduser()


def _flat(images: np.ndarray) -> np.ndarray:
    n, rows, columns = images.shape
    return images.reshape(n, rows * columns)


def _in_folder(folder: Path) -> dict[str, Path]:
    """Return the files of a folder, unchecked, so that it can have other data in this format."""
    found = {
        name: path
        for name in FILES
        for path in (folder / f"{name}.gz", folder / name)  # the unpacked one wins
        if path.is_file()
    }
    if missing := [name for name in FILES if name not in found]:
        raise DatasetError(
            f"MNIST is not in {folder}: {', '.join(missing)} (with or without .gz) not found. "
            "Name the folder that has all four files (--data-folder), or name none to use the "
            "cache or a download."
        )
    return found


def _in_cache() -> dict[str, Path]:
    """Return the files of the cache, and download those that are missing or damaged."""
    folder = cache_folder() / "mnist"
    return {name: _fetched(f"{name}.gz", checksum, folder) for name, checksum in FILES.items()}


def _fetched(name: str, checksum: str, folder: Path) -> Path:
    """Return a file of the cache; if it is missing, download it from the first mirror with it."""
    pooch = extras.load("pooch")
    failures = []
    for mirror in MIRRORS:
        try:
            return Path(pooch.retrieve(f"{mirror}/{name}", checksum, name, folder))
        except (OSError, ValueError) as error:  # errors of connections are OSErrors
            failures.append(f"  {mirror}/{name}: {error}")
    raise DatasetError(
        f"MNIST is not (or not intact) in the cache folder {folder}, and {name} could not be "
        "downloaded. Tried:\n" + "\n".join(failures) + "\n"
        "Without a network: download the four files elsewhere and name their folder "
        "(--data-folder, or folder= in load_dataset). To keep the cache elsewhere, set "
        "CONTINUAL_LEARNING_CACHE."
    )
