"""Reset methods as Optax transformations."""

from typing import TYPE_CHECKING

from continual_learning import installation, lazy

if TYPE_CHECKING:
    from continual_learning.optim.public import *  # noqa: F403

installation.warn_if_overwritten()

__getattr__, __dir__ = lazy.attach(__name__)
