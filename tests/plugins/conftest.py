"""Processes that have loaded nothing, and packages that are installed for a test."""

import importlib.metadata
import sys

import pytest

from continual_learning import plugins
from continual_learning.agents.catalog import AGENTS
from continual_learning.analysis import loading, style
from continual_learning.diagnostics import metrics
from continual_learning.envs import STREAMS
from continual_learning.optim import registry as methods
from continual_learning.paper import artifacts
from continual_learning.studies import registry


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """A process that has loaded nothing, and a user who has named nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(methods, "_ENTRIES", dict(methods._ENTRIES))
    monkeypatch.setattr(registry, "_ADDED", {})
    for kinds in (STREAMS, AGENTS):
        monkeypatch.setattr(kinds, "_entries", dict(kinds._entries))
    monkeypatch.setattr(artifacts, "GENERAL", dict(artifacts.GENERAL))
    monkeypatch.setattr(metrics, "METRICS", dict(metrics.METRICS))
    monkeypatch.setattr(style, "_recorded", {})
    loading._warn.cache_clear()
    yield
    for name in [name for name in sys.modules if name.startswith("continual_learning_plugin_")]:
        del sys.modules[name]


@pytest.fixture
def another_process(monkeypatch):
    """Forgets what has been loaded, not what has been named."""

    def forget():
        monkeypatch.setattr(plugins, "_loaded", {})
        ours = {name: entry for name, entry in methods._ENTRIES.items() if entry.is_ours}
        monkeypatch.setattr(methods, "_ENTRIES", ours)
        monkeypatch.setattr(registry, "_ADDED", {})
        for kinds in (STREAMS, AGENTS):
            ours = {name: each for name, each in kinds._entries.items() if isinstance(each, str)}
            monkeypatch.setattr(kinds, "_entries", ours)
        loading._warn.cache_clear()

    return forget


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a package whose entry point is a module of this text, as one that is installed."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(plugins, "_asked", False)

    def made(text, name="my_package", module="my_module_of_a_test"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = f"[continual_learning.plugins]\nof_{name} = {module}\n"
        (info / "entry_points.txt").write_text(points)
        (site / f"{module}.py").write_text(text)
        importlib.invalidate_caches()
        return site

    yield made
    for name in [name for name in sys.modules if name.endswith("of_a_test")]:
        del sys.modules[name]
