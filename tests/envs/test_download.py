"""MNIST from servers on this machine: good, lying, failing and absent ones."""

import gzip
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from continual_learning.envs import DatasetError, load_dataset
from continual_learning.envs.datasets import mnist
from tests.envs.conftest import pack

pooch = pytest.importorskip("pooch")


@contextmanager
def serving(files, cut=0):
    """A server of {name: bytes}; yields its address and the list of names asked for.

    `cut`: bytes that are promised but not sent.
    """
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.rsplit("/", 1)[-1]
            asked.append(name)
            if name not in files:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(files[name])))
            self.end_headers()
            self.wfile.write(files[name][: len(files[name]) - cut])

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mnist", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path, tiny_mnist):
    """An empty cache, the tiny files as the right ones, and no proxy."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("CONTINUAL_LEARNING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mnist"


@pytest.fixture
def packed(raw):
    return {f"{name}.gz": pack(data) for name, data in raw.items()}


@pytest.fixture
def use(monkeypatch):
    def use(*mirrors):
        monkeypatch.setattr(mnist, "MIRRORS", mirrors)

    return use


def test_downloaded_once(cache, packed, use, check):
    with serving(packed) as (address, asked):
        use(address)
        check(load_dataset("mnist"))
        assert sorted(asked) == sorted(packed)
        check(load_dataset("mnist"))
        assert len(asked) == 4
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == packed


def test_damaged_cache_is_mended(cache, packed, use, check):
    with serving(packed) as (address, asked):
        use(address)
        load_dataset("mnist")
        damaged = cache / "t10k-images-idx3-ubyte.gz"
        damaged.write_bytes(damaged.read_bytes()[:-5])
        del asked[:]
        check(load_dataset("mnist"))
    assert asked == [damaged.name]


def test_mirrors_are_tried_in_order(cache, packed, use, check):
    other = {name: gzip.compress(b"something else") for name in packed}
    with (
        serving({}) as (empty, _),
        serving(other) as (wrong, _),
        serving(packed, cut=3) as (stops, _),
        serving(packed) as (good, _),
        serving(packed) as (spare, not_asked),
    ):
        use(empty, wrong, stops, good, spare)
        check(load_dataset("mnist"))
    assert not not_asked
    assert sorted(path.name for path in cache.iterdir()) == sorted(packed)


def test_every_failure_is_told(cache, packed, use):
    html = {name: b"<html>Log in to the hotel's network</html>" for name in packed}
    with (
        serving({}) as (empty, _),
        serving(html) as (wrong, _),
        serving(packed, cut=3) as (stops, _),
    ):
        use(empty, wrong, stops)
        with pytest.raises(DatasetError) as error:
            load_dataset("mnist")
    lines = str(error.value).splitlines()
    name = "train-images-idx3-ubyte.gz"
    assert str(cache) in lines[0] and name in lines[0]
    assert lines[1].startswith(f"  {empty}/{name}: 404 Client Error")
    assert lines[2].startswith(f"  {wrong}/{name}: SHA256 hash of downloaded file")
    assert lines[3].startswith(f"  {stops}/{name}: ") and "IncompleteRead" in lines[3]
    assert "--data-folder" in lines[4] and "CONTINUAL_LEARNING_CACHE" in lines[4]
    assert list(cache.iterdir()) == []


def test_offline(use):
    with serving({}) as (gone, _):
        pass
    use(gone)
    with pytest.raises(DatasetError, match=r"Connection refused[\s\S]*--data-folder"):
        load_dataset("mnist")


def test_cache_that_cannot_be_written(cache, packed, use):
    cache.parent.write_text("a file where the folder should be")
    with serving(packed) as (address, _):
        use(address)
        with pytest.raises(
            DatasetError, match=r"(File exists|Not a directory)[\s\S]*CONTINUAL_LEARNING_CACHE"
        ):
            load_dataset("mnist")


def test_the_cache_is_the_user_s(monkeypatch):
    monkeypatch.setenv("CONTINUAL_LEARNING_CACHE", "~/mine")
    assert mnist.cache_folder() == Path.home() / "mine"
    monkeypatch.delenv("CONTINUAL_LEARNING_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
        assert mnist.cache_folder() == Path("/xdg/continual-learning")


def test_without_pooch(monkeypatch, tmp_path):
    monkeypatch.setattr("continual_learning.extras._installed", lambda module: module != "pooch")
    with pytest.raises(ImportError, match=r"pooch is not installed.*plasticax\[studies\]"):
        load_dataset("mnist")
