"""The page as a whole; no script but our own can run in it."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from continual_learning.analysis import style
from continual_learning.analysis.curves import CurvesError, main_metric
from continual_learning.diagnostics import metrics
from continual_learning.installation import DISTRIBUTION, VERSION
from continual_learning.report import series
from continual_learning.report.cards import cards
from continual_learning.report.facts import best, facts
from continual_learning.report.head import head, notices
from continual_learning.report.markup import Markup, element, join, name
from continual_learning.report.studies import Section, numeric, read
from continual_learning.report.tables import sources, tables
from continual_learning.schema.errors import StudyError
from continual_learning.studies.store.files import write_file

MARK = b'<meta name="generator" content="continual report">'
"""A mark near the beginning of every report, by which reports are recognized."""

SCRIPTS = ("chart.js", "controls.js", "pointer.js", "view.js", "page.js")

USE = (
    "Drag over a chart to zoom; double-click to reset; Ctrl and the wheel zoom at the pointer. All "
    "charts share the range of steps."
)

POLL = 2000
"""Milliseconds between two requests of a live page for the newest version."""

_DARK = (0x19, 0x1C, 0x22)  # the surface of the dark theme
_CONTRAST = 3.6


def make(
    folders: Sequence[str | Path], *, out: Path | None = None, command: str = "", version: str = ""
) -> str:
    """Return the page of one or more studies as HTML.

    Args:
      folders: folders of studies; studies of one experiment are shown together.
      out: the path of the page, for links to the folders; None for a page without links.
      command: the command that made the page, which the page shows.
      version: if given, the page asks its server for newer versions and reloads itself.
    """
    sections = read(folders)
    located = [{} if each.frame.empty else series.locate(each) for each in sections]
    lines = sum(
        len(rows.curves.seeds) * len(numeric(section.frame))
        for section, found in zip(sections, located, strict=True)
        for rows in found.values()
    )
    most = series.points(lines)
    bodies, data, colors = [], [], []
    for i, (section, rows) in enumerate(zip(sections, located, strict=True)):
        body, drawn = _section(i, section, rows, most, out, alone=len(sections) == 1)
        bodies.append(body)
        data.append(drawn)
        colors.append(_colors(i, list(rows)))
    titles = [section.title for section in sections]
    top = [element("h1", titles[0] if len(titles) == 1 else f"{len(titles)} experiments")]
    if len(titles) > 1:
        links = (element("a", title, href=f"#section-{i}") for i, title in enumerate(titles))
        top.append(element("ul", *(element("li", link) for link in links), class_="toc"))
    text = _asset("page.css") + "".join(colors)
    script = "".join(map(_asset, SCRIPTS))
    return Template(_asset("page.html")).substitute(
        title=join(" · ".join(titles)),
        policy=_policy(text, script, live=bool(version)),
        style=text,
        body=join(*top, *bodies),
        footer=_footer(command),
        data=_json({"sections": data, "version": version, "every": POLL}),
        script=script,
    )


def write(folders: Sequence[str | Path], out: Path, command: str = "") -> None:
    """Write the page of studies; it may replace another report, but no other file."""
    if out.is_dir():
        raise StudyError(f"{out} is a folder: name a file, such as {out / 'report.html'}.")
    if out.exists():
        with open(out, "rb") as file:
            if MARK not in file.read(1000):
                raise StudyError(
                    f"{out} exists and is no report: choose another name, or remove it."
                )
    write_file(out, make(folders, out=out, command=command).encode())


def _section(
    i: int, section: Section, rows: dict[str, series.Rows], most: int, out: Path | None, alone: bool
) -> tuple[Markup, dict[str, Any] | None]:
    """Return a section and the data of its charts; None if it has no curves."""
    title = None if alone else element("h2", section.title)
    main = _main(section) if rows else None
    methods = facts(section, rows, main) if main else []
    said = notices(section, methods)
    parts = [
        title,
        head(section, methods),
        element("ul", *(element("li", each) for each in said), class_="notices") if said else None,
    ]
    data = None
    if main:
        data = series.section_data(section, rows, main, most)
        for method in data["methods"]:
            method["name"] = name(method["name"])
        parts += [
            cards(section, methods, best(methods, main), main),
            element("h3", "Curves"),
            element("p", USE, class_="note hint"),
            element("p", _how(data), class_="note"),
            element("div", id=f"curves-{i}", class_="curves"),
            element("noscript", element("p", "The curves need JavaScript; the tables do not.")),
            element("h3", "Tables"),
            tables(section, methods, main),
        ]
    parts += [element("h3", "Specs, versions and data"), sources(section, out)]
    return element("section", *parts, id=f"section-{i}", class_="experiment"), data


def _main(section: Section) -> str | None:
    """Return the metric by which methods are judged; the first one if no usual one was measured."""
    try:
        return main_metric(section.frame)
    except CurvesError:
        groups = metrics.grouped(series.drawn(section)[0])
        for column in (column for columns in groups.values() for column in columns):
            title = metrics.metric(column).title
            section.notices.append(
                f"No return or accuracy was measured: methods are judged by {title}."
            )
            return column
    return None


def _how(data: dict[str, Any]) -> str:
    """Return a sentence or two about what the charts draw."""
    text = "Tasks are counted from 1 here, from 0 in the data. Tables and cards use all rows."
    if data["binned"]:
        text += (
            f" There are more rows than can be drawn, so a point stands for {data['levels'][0]}. "
            "The IQM is over the means of these bins; the thin lines of seeds go through the "
            "smallest and the largest value of each bin, so that no extreme is lost."
        )
    return text


def _footer(command: str) -> Markup:
    now = datetime.datetime.now(datetime.UTC)
    made = f"Made {now:%Y-%m-%d %H:%M:%S} UTC by {DISTRIBUTION} {VERSION}"
    return element("p", made, *((" with ", element("code", command)) if command else ()), ".")


def _colors(i: int, methods: list[str]) -> str:
    """Return CSS for the colors of a section's methods, lightened for the dark theme."""
    chosen = style.colors(methods)
    rules = []
    for k, method in enumerate(methods):
        light = chosen.get(method, "#4D4D4D")
        rules.append(f"#section-{i}{{--m{k}:light-dark({light},{lightened(light)})}}")
        rules.append(f"#section-{i} .c{k}{{color:var(--m{k})}}")
    return "".join(rules)


def lightened(color: str) -> str:
    """Return a color mixed with white until it stands out from the dark surface."""
    rgb = [int(color[k : k + 2], 16) for k in (1, 3, 5)]
    while (_luminance(rgb) + 0.05) / (_luminance(_DARK) + 0.05) < _CONTRAST:
        rgb = [value + -((value - 255) // 16) for value in rgb]
    return "#" + "".join(f"{value:02X}" for value in rgb)


def _luminance(rgb: Sequence[int]) -> float:
    """Return the relative luminance, as WCAG defines it."""
    parts = (value / 255 for value in rgb)
    linear = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _policy(styles: str, script: str, live: bool) -> str:
    """Return a policy that allows our script and style alone; a live page may ask its server."""
    rules = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(styles),
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """Return JSON that cannot end the element around it: ASCII without `<`, `>` and `&`."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _asset(file: str) -> str:
    return resources.files("continual_learning.report").joinpath(file).read_text("utf-8")
