"""Delayed Ant that is not told: actions act k steps later, k from 0 to 8 and new in every task.

The numbers are ours; all else is SlipperyAnt. See `delayed_ant` for that of the paper's authors.
"""

from continual_learning.studies.presets import slippery_ant

SPEC = slippery_ant.SPEC.override(
    name="delayed_ant_blind",
    title="Ant whose actions act 0 to 8 steps later, a new delay every 20M steps (numbers ours)",
    changes="action_delay = integers(0, 8)",
    longest_action_delay=8,
)
