"""The name under which the paper's listing imports `attach_reset_method`."""

from continual_learning.optim import attach_reset_method

__all__ = ["attach_reset_method"]
