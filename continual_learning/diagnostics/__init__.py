"""Diagnostics of plasticity: inactive units, ranks of features, norms, collapse of a return.

Pure functions of arrays. All can be jitted and vmapped but those of collapse, which are NumPy's:
they look at what was measured.
"""

from continual_learning.diagnostics.collapse import Collapse, collapsed, collapses, collapsing
from continual_learning.diagnostics.norms import norm_metrics
from continual_learning.diagnostics.plasticity import (
    combined,
    dormant_ratio,
    dormant_score,
    linearised_ratio,
    low_variance_ratio,
    plasticity_metrics,
    positive_fraction,
    totals,
    variance_score,
)
from continual_learning.diagnostics.ranks import (
    effective_rank,
    feature_rank,
    rank_metrics,
    singular_values,
    srank,
    stable_rank,
)

__all__ = [
    "Collapse",
    "collapsed",
    "collapses",
    "collapsing",
    "combined",
    "dormant_ratio",
    "dormant_score",
    "effective_rank",
    "feature_rank",
    "linearised_ratio",
    "low_variance_ratio",
    "norm_metrics",
    "plasticity_metrics",
    "positive_fraction",
    "rank_metrics",
    "singular_values",
    "srank",
    "stable_rank",
    "totals",
    "variance_score",
]
