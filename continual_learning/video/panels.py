"""The text on pictures, and their arrangement side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

INK, PAPER = (24, 32, 44), (255, 255, 255)
SIDE_BY_SIDE = 3
"""Up to this many panels stand in one row."""


def task_text(task: Mapping[str, float], usual: Mapping[str, float]) -> str:
    """Return a task as text, `friction 0.02, gravity 0.5`: friction and all unusual values."""
    shown = {n: v for n, v in task.items() if n == "friction" or abs(v - usual[n]) > 1e-6}
    names = sorted(shown, key=lambda name: (name != "friction", name))
    return ", ".join(f"{name.replace('_', ' ')} {shown[name]:.3g}" for name in names)


def moment_text(seconds: float, speed: float, total: float, episode: int) -> str:
    """Return `3.2 s, +0.51 m/s, return 12.3`, with the episode's number from the second one on.

    Args:
      seconds: the time since the episode began.
      speed: the speed along x, in m/s.
      total: the sum of the episode's rewards so far.
      episode: the number of the episode, from 1.
    """
    text = f"{seconds:.1f} s, {speed:+.2f} m/s, return {total:.1f}"
    return f"{text}, episode {episode}" if episode > 1 else text


def labeled(frame: np.ndarray, lines: Sequence[str]) -> np.ndarray:
    """Return a picture uint8 [height, width, 3] with lines of text at its top left."""
    image = Image.fromarray(frame)
    draw = ImageDraw.Draw(image)
    size = max(10, len(frame) // 22)
    font = ImageFont.load_default(size)
    for i, line in enumerate(lines):
        at = (0.6 * size, (0.5 + 1.3 * i) * size)
        # A white outline keeps the text readable on any background.
        draw.text(at, line, INK, font, stroke_width=max(1, size // 8), stroke_fill=PAPER)
    return np.asarray(image)


def side_by_side(panels: Sequence[np.ndarray]) -> np.ndarray:
    """Return panels [height, width, 3] in one picture, row by row; unused places are blank."""
    count = len(panels)
    columns = count if count <= SIDE_BY_SIDE else math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    height, width, _ = panels[0].shape
    whole = np.full((rows * height, columns * width, 3), PAPER, np.uint8)
    for i, panel in enumerate(panels):
        y, x = height * (i // columns), width * (i % columns)
        whole[y : y + height, x : x + width] = panel
        if i % columns:
            whole[y : y + height, x] = INK  # a line between neighbors
    return whole
