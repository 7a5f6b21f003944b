"""The public names of `continual_learning.diagnostics`, which imports them when one is used."""

from continual_learning.diagnostics.collapse import Collapse, collapsed, collapses, collapsing
from continual_learning.diagnostics.norms import norm_metrics
from continual_learning.diagnostics.plasticity import (
    combined,
    dormant_ratio,
    dormant_score,
    linearized_ratio,
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
    "linearized_ratio",
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
