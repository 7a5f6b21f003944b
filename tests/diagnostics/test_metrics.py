"""The table of metrics: it knows what agents measure, and its readers need no JAX."""

import subprocess
import sys

import pytest

from continual_learning.diagnostics import metrics
from continual_learning.studies import build, registry
from continual_learning.studies.runner import Lanes, program_of
from continual_learning.studies.store.parts import INDEX

EXPERIMENTS = ["permuted_digits", "slippery_ant", "slippery_ant_sac", "continual_minatar"]


@pytest.mark.parametrize("name", [*EXPERIMENTS, "minatar_ppo", "gymnasium_ppo"])
def test_what_agents_measure_is_in_the_table(name):
    """All columns but the index and the parameters of tasks."""
    experiment = registry.get(name, "smoke")
    method = "cpr" if "cpr" in experiment.methods else next(iter(experiment.methods))
    shared = build.data(experiment)
    program = program_of(build.trainer(experiment, method, shared), Lanes([0]))
    try:
        columns = set(program.columns)
    finally:
        program.close()
    unknown = {name for name in columns - {*INDEX} if not metrics.known(name)}
    stream = build.stream(experiment, shared)
    environment = getattr(getattr(stream, "stream", None), "environment", None)
    assert unknown <= {*getattr(environment, "parameters", ())}
    assert experiment.headline in columns


def test_a_metric_says_what_is_better():
    accuracy = metrics.METRICS["test_accuracy"]
    assert (accuracy.title, accuracy.unit, accuracy.better) == ("Test accuracy", "%", "higher")
    assert metrics.metric("policy_dormant_ratio").better == "lower"
    assert metrics.metric("entropy").better is None
    # Of columns that are not ours the name must do.
    assert metrics.metric("my_loss").better == "lower" and metrics.metric("mine").better == "higher"


def test_readers_need_no_jax():
    code = (
        "import sys, continual_learning.diagnostics.metrics, continual_learning.analysis.summary\n"
        "import continual_learning.report.page\n"
        "assert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
