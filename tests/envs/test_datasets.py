"""Data sets from local files, and the digits of scikit-learn."""

import gzip
import hashlib
import os
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from continual_learning.envs import Dataset, DatasetError, load_dataset
from continual_learning.envs.datasets.mnist import FILES

REAL = os.environ.get("CONTINUAL_LEARNING_MNIST")


def test_gzipped_files(folder, check):
    check(load_dataset("mnist", folder))


def test_plain_files_and_wrong_suffixes(folder, raw, check):
    """A browser may unpack a file and leave it its name; a plain file wins over a gzipped one."""
    images, labels, *_ = raw
    (folder / f"{images}.gz").write_bytes(raw[images])
    (folder / labels).write_bytes(raw[labels])
    (folder / f"{labels}.gz").write_bytes(b"not read")
    check(load_dataset("mnist", folder))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "begins with nothing, not with 00 00 08 03"),
        (lambda data: b"<html>", r"begins with 3c 68 74 6d, not with 00 00 08 03"),
        (lambda data: b"\0\0\x08\x01" + data[4:], "begins with 00 00 08 01, not with 00 00 08 03"),
        (lambda data: data[:10], "cut off: 10 bytes, and the header alone takes 16"),
        (lambda data: data[:-1], r"cut off: 135 bytes, and shape \[20, 2, 3\] takes 136"),
        (
            lambda data: data + b"\0",
            r"too long: 137 bytes or more, and shape \[20, 2, 3\] takes 136",
        ),
    ],
)
def test_damaged_files_are_named(folder, raw, damage, message, packed):
    name = "train-images-idx3-ubyte"
    path = folder / (f"{name}.gz" if packed else name)
    data = damage(raw[name])
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(DatasetError, match=message) as error:
        load_dataset("mnist", folder)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:12] + b"\xff\xff" + d[14:]])
def test_damaged_gzip_is_named(folder, damage):
    path = folder / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DatasetError, match="damaged gzip data") as error:
        load_dataset("mnist", folder)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("header", "content", "told"),
    [
        ((3_000_000, 32, 32), 0, r"\[3000000, 32, 32\] would take 3.1 GB, and at most 1.1 GB are"),
        ((2**32 - 1,) * 3, 0, "are read"),
        ((20, 2, 3), 200_000_000, r"too long: 137 bytes or more, and shape \[20, 2, 3\] takes 136"),
    ],
)
def test_a_small_file_that_becomes_a_large_one_is_refused_before_it_does(
    folder, header, content, told
):
    path = folder / "train-images-idx3-ubyte.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(bytes((0, 0, 8, 3)) + struct.pack(">3I", *header))
        for _ in range(content // 10_000_000):
            file.write(bytes(10_000_000))
    assert path.stat().st_size < 3_000_000
    tracemalloc.start()
    with pytest.raises(DatasetError, match=told):
        load_dataset("mnist", folder)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_missing_files_are_listed(folder):
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DatasetError, match=r"t10k-labels-idx1-ubyte .*--data-folder") as error:
        load_dataset("mnist", folder)
    assert str(folder) in str(error.value)
    assert "train-images" not in str(error.value)


def test_files_that_do_not_fit_together(folder):
    for kind in ("images-idx3", "labels-idx1"):
        test = folder / f"t10k-{kind}-ubyte.gz"
        (folder / f"train-{kind}-ubyte.gz").write_bytes(test.read_bytes())
        if kind == "images-idx3":
            with pytest.raises(DatasetError, match=r"train_labels must be int32 \[10\]"):
                load_dataset("mnist", folder)
    assert len(load_dataset("mnist", folder).train_labels) == 10


def test_a_class_without_examples():
    images = np.zeros((2, 3), np.float32)
    labels = np.array([0, 2], np.int32)
    with pytest.raises(ValueError, match=r"from 0 to 2 at least once and no other, got \[0, 2\]"):
        Dataset(images, labels, images, labels, classes=3)


def test_images_of_another_type():
    labels = np.array([0, 1], np.int32)
    with pytest.raises(ValueError, match=r"float32 or uint8 \[n, 3\], got float64 \[2, 3\]"):
        Dataset(np.zeros((2, 3)), labels, np.zeros((2, 3)), labels, classes=2)


def test_digits():
    data = load_dataset("digits")
    again = load_dataset("digits")
    assert data.train_images.shape == (1437, 64) and data.test_images.shape == (360, 64)
    assert data.train_images.dtype == np.float32 and data.train_labels.dtype == np.int32
    assert data.train_images.min() == 0 and data.train_images.max() == 1
    np.testing.assert_array_equal(data.test_images, again.test_images)
    everything = np.bincount(np.concatenate([data.train_labels, data.test_labels]))
    assert np.all(np.abs(np.bincount(data.test_labels) - everything / 5) <= 1)

    sklearn = pytest.importorskip("sklearn.datasets").load_digits()
    rows = np.concatenate([data.train_images, data.test_images])
    np.testing.assert_array_equal(np.unique(rows * 16, axis=0), np.unique(sklearn.data, axis=0))


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'plasticax\[demo\]'"):
        load_dataset("digits")


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match=r"\['mnist', 'digits'\], got 'cifar'"):
        load_dataset("cifar")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="in no folder"):
        load_dataset("digits", tmp_path)


def test_importing_is_light():
    code = (
        "import sys, continual_learning.envs;"
        "from jax._src import xla_bridge;"
        "assert not xla_bridge.backends_are_initialized();"
        "assert not {'sklearn', 'pooch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


@pytest.mark.skipif(not REAL, reason="CONTINUAL_LEARNING_MNIST names no folder with MNIST")
def test_the_real_files():
    folder = Path(REAL or "")
    data = load_dataset("mnist", folder)
    assert data.train_images.shape == (60_000, 784) and data.test_images.shape == (10_000, 784)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.train_labels).tolist() == counts
    assert data.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert round(data.train_images.mean() / 255, 4) == 0.1307
    packed = {name: folder / f"{name}.gz" for name in FILES}
    found = {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in packed.items() if p.exists()}
    assert found.items() <= FILES.items()
