"""Draws docs/imports.svg: the parts of the package in their layers, and which imports which.

python docs/import_graph.py
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).with_name("imports.svg")
NAME = "continual_learning"
WIDE, HIGH, BOX, LEFT = 760, 58, (104, 26), 20


def layers() -> list[list[str]]:
    """Return the parts from the top, those of a layer side by side, as the contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [found] = [c for c in contracts["contracts"] if c.get("containers") == [NAME]]
    return [[part.strip() for part in line.split("|")] for line in found["layers"]]


def imports() -> set[tuple[str, str]]:
    """Return (who imports, what) of the parts."""
    graph = grimp.build_graph(NAME, exclude_type_checking_imports=True)
    found = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = module.split(".")[1:2], other.split(".")[1:2]
            if all(pair) and pair[0] != pair[1]:
                found.add((pair[0][0], pair[1][0]))
    return found


def draw() -> str:
    """Return the picture."""
    places = {}
    for row, parts in enumerate(layers()):
        gap = (WIDE - len(parts) * BOX[0]) / (len(parts) + 1)
        for i, part in enumerate(parts):
            places[part] = (LEFT + gap + i * (BOX[0] + gap), LEFT + row * HIGH)
    size = WIDE + 2 * LEFT, LEFT * 2 + (len(layers()) - 1) * HIGH + BOX[1]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        'font-family="sans-serif" font-size="13" role="img">',
        "<title>The parts of the package: each imports only parts below it</title>",
        f'<rect width="{size[0]}" height="{size[1]}" fill="#ffffff"/>',
    ]
    for one, other in sorted(imports()):
        (x, y), (a, b) = places[one], places[other]
        half = BOX[0] / 2
        lines.append(
            f'<line x1="{x + half:.0f}" y1="{y + BOX[1]}" x2="{a + half:.0f}" y2="{b}" '
            'stroke="#7a8ca0" stroke-width="0.8" opacity="0.55"/>'
        )
    for part, (x, y) in places.items():
        lines.append(
            f'<rect x="{x:.0f}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="5" '
            'fill="#eaf1f8" stroke="#0072B2"/>'
            f'<text x="{x + BOX[0] / 2:.0f}" y="{y + 17}" text-anchor="middle" '
            f'fill="#1a1a1a">{part}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    OUT.write_text(draw())
