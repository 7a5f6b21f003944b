"""From the folders of studies to tables."""

from continual_learning.analysis.loading import load

__all__ = ["load"]
