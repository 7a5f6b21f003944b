"""Delayed Ant: actions act k steps later, k from 0 to 8 and new in every task.

The paper names a time-delayed Ant and gives no numbers. These are ours; all else is SlipperyAnt.
"""

import dataclasses

from continual_learning.experiments.presets import slippery_ant

SPEC = dataclasses.replace(
    slippery_ant.SPEC,
    name="delayed_ant",
    title="Ant whose actions act 0 to 8 steps later, a new delay every 20M steps (numbers ours)",
    changes="action_delay = integers(0, 8)",
    longest_action_delay=8,
)
