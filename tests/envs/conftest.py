"""A tiny data set in MNIST's format."""

import gzip
import hashlib
import struct

import numpy as np
import pytest

from continual_learning.envs.datasets import mnist


def idx(array):
    """IDX bytes of a uint8 array."""
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def pack(data):
    """The data gzipped, always alike."""
    return gzip.compress(data, mtime=0)


@pytest.fixture
def arrays():
    """By file name: 20 training and 10 test images of 2×3, two and one of each class."""
    rng = np.random.default_rng(0)
    labels = np.arange(10, dtype=np.uint8)
    return {
        "train-images-idx3-ubyte": rng.integers(0, 256, (20, 2, 3), np.uint8),
        "train-labels-idx1-ubyte": np.tile(labels, 2),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (10, 2, 3), np.uint8),
        "t10k-labels-idx1-ubyte": labels,
    }


@pytest.fixture
def raw(arrays):
    """The unpacked files, by name."""
    return {name: idx(array) for name, array in arrays.items()}


@pytest.fixture
def folder(tmp_path, raw):
    """A folder of the four files, gzipped."""
    path = tmp_path / "data"
    path.mkdir()
    for name, data in raw.items():
        (path / f"{name}.gz").write_bytes(gzip.compress(data))
    return path


@pytest.fixture
def tiny_mnist(monkeypatch, raw):
    """Makes the tiny files the right ones."""
    sums = {name: hashlib.sha256(pack(data)).hexdigest() for name, data in raw.items()}
    monkeypatch.setattr(mnist, "FILES", sums)


@pytest.fixture
def check(arrays):
    """Checks that a data set is the tiny one."""

    def check(data):
        train, train_labels, test, test_labels = arrays.values()
        np.testing.assert_array_equal(data.train_images, train.reshape(20, 6))
        np.testing.assert_array_equal(data.train_labels, train_labels)
        np.testing.assert_array_equal(data.test_images, test.reshape(10, 6))
        np.testing.assert_array_equal(data.test_labels, test_labels)
        assert data.train_images.dtype == data.test_images.dtype == np.uint8
        assert data.train_labels.dtype == data.test_labels.dtype == np.int32
        assert (data.classes, data.features) == (10, 6)

    return check
