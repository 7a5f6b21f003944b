"""Tables, curves and statistics of studies, from their folders."""

from continual_learning.analysis.loading import load

__all__ = ["load"]
