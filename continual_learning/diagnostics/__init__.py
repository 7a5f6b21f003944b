"""Diagnostics of plasticity: inactive units, ranks of features, norms, collapse of a return.

All are pure functions of arrays. They can be jitted and vmapped, except those of collapse, which
use NumPy, since they are applied to recorded curves.
"""

from typing import TYPE_CHECKING

from continual_learning import lazy

if TYPE_CHECKING:
    from continual_learning.diagnostics.public import *  # noqa: F403

__getattr__, __dir__ = lazy.attach(__name__)
