"""Packages with lazy public names: every module of them can be the first that is imported."""

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys

import jax, optax  # not imported anew every time
import continual_learning.networks
from continual_learning import optim

names = [each.name for each in pkgutil.walk_packages(optim.__path__, optim.__name__ + ".")]
for name in [*names, "continual_learning.networks"]:
    for old in [each for each in sys.modules if each.startswith("continual_learning")]:
        del sys.modules[old]
    importlib.import_module(name)
    from continual_learning import optim

    assert optim.CPR.__name__ == "CPR" and "CPR" in dir(optim), name
print(len(names))
"""


def test_any_module_may_be_the_first():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
