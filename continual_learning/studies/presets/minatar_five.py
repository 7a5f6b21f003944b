"""All five games of MinAtar, one after the other (ours), with the rest of `continual_minatar`."""

from continual_learning.studies.presets import continual_minatar

SPEC = continual_minatar.SPEC.override(
    name="minatar_five",
    title="All five MinAtar games, 1.5M steps each (ours)",
    games=("space_invaders", "asterix", "seaquest", "breakout", "freeway"),
    tasks=5,
)
