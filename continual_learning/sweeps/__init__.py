"""Many settings of a method side by side, and the best of them."""

from typing import TYPE_CHECKING

from continual_learning import lazy

if TYPE_CHECKING:
    from continual_learning.sweeps.public import *  # noqa: F403

__getattr__, __dir__ = lazy.attach(__name__)
