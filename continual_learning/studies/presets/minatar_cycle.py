"""The three MinAtar games again and again, to show plasticity over many switches (ours)."""

from continual_learning.studies.presets import continual_minatar

SPEC = continual_minatar.SPEC.override(
    name="minatar_cycle",
    title="Three MinAtar games, five rounds of 0.48M steps each (ours)",
    tasks=15,
    vector_steps_per_task=40_000,
)
