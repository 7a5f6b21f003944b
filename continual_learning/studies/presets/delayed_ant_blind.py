"""Delayed Ant without told delays: actions act 0 to 8 steps later, with a new delay per task.

The numbers are ours; all else is as in SlipperyAnt. The version of the authors is `delayed_ant`.
"""

from continual_learning.studies.presets import slippery_ant

SPEC = slippery_ant.SPEC.override(
    name="delayed_ant_blind",
    title="Ant whose actions act 0 to 8 steps later, a new delay every 20M steps (numbers ours)",
    changes="action_delay = integers(0, 8)",
    longest_action_delay=8,
)
