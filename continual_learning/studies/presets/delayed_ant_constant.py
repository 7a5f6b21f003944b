"""Delayed Ant with constant delays, new in every task, which the agent is not told."""

from continual_learning.studies.presets import delayed_ant

SPEC = delayed_ant.SPEC.override(
    name="delayed_ant_constant",
    title="Ant with delays from 0 to 8, new ones every 20M steps, of which it is not told",
    changes="observation_delay = integers(0, 8); action_delay = integers(0, 8)",
    told_delays="none",
    tasks=40,
)
