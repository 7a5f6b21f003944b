"""Packages with lazy public names: every module of them can be the first that is imported."""

import ast
import inspect
import subprocess
import sys

import continual_learning

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


FIRST = """
import sys
import continual_learning
from continual_learning import Experiment, RunOptions
assert not {"jax", "numpy", "pandas"} & sys.modules.keys()
from continual_learning import CPR, attach_reset_method, trace_units
assert not {"flax", "pandas", "pyarrow"} & sys.modules.keys()
from continual_learning import *
assert run.__module__ == "continual_learning.studies.launch" and callable(load)
"""


def test_public_names_import_what_they_need_alone():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_checkers_of_types_see_the_public_names():
    """What is imported under TYPE_CHECKING is what there is, from wherever it is public."""
    [block] = [
        each
        for each in ast.parse(inspect.getsource(continual_learning)).body
        if isinstance(each, ast.If)
    ]
    seen = {}
    for each in block.body:
        assert isinstance(each, ast.ImportFrom)
        seen |= {str(alias.asname): each.module for alias in each.names}
    assert sorted(seen) == sorted(dir(continual_learning)) == sorted(continual_learning.__all__)
    for name, module in seen.items():
        assert getattr(continual_learning, name) is getattr(sys.modules[module], name)
