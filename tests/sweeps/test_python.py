"""A sweep without the command line."""

import subprocess
import sys
from pathlib import Path

SWEEP = """
import sys
from pathlib import Path
from continual_learning import sweeps
from continual_learning.studies.options import RunOptions
from continual_learning.studies import build
from tests.sweeps import hill
build.trainer, build.data = hill.trainer, lambda experiment: ()
out = Path(sys.argv[1])
grid = sweeps.Grid({"max_reset": (0.01, 0.03, 0.09), "every": (200, 1000)})
sweep = sweeps.Sweep(hill.SPEC, hill.SPEC, "cpr", grid, [1000, 1001], halving=3)
assert sweeps.run(sweep, out, options=RunOptions(quiet=True, time_limit=1e-9)) == 75
assert sweeps.resume(out, RunOptions(quiet=True)) == 0
[best] = sweeps.ranking(out).best[:1]
assert best.configuration == hill.BEST
assert sweeps.run(sweep, out) == 0  # nothing is left to do
assert not [name for name in sys.modules if name.startswith("continual_learning.cli")]
"""


def test_a_sweep_is_run_from_python(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = [sys.executable, "-c", SWEEP, str(tmp_path / "sweep")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert "To go on, give the same command again" in done.stdout
    assert "To run the best with other seeds" in done.stdout
    assert (tmp_path / "sweep/best.toml").is_file()
