"""Tables as Markdown, LaTeX and CSV text. Text from files never acts as markup in them."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator

from continual_learning.paper.tables.table import ABSENT, Cell, Measured, Table

# Emphasis, code, HTML, cells, links, headings.
_MARKDOWN = re.compile(r"[\\`*<>|]|\](?=[(\[:])|(?<!\w)_|_(?!\w)|^#")
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": "$-$",
    "—": "---",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≠": r"$\neq$",
    "≥": r"$\geq$",
    "…": r"\ldots{}",
    "α": r"$\alpha$",
    "γ": r"$\gamma$",
    "κ": r"$\kappa$",
    "λ": r"$\lambda$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "φ": r"$\phi$",
    "∞": r"$\infty$",
}
_FORMULA = ("=", "+", "@", "\t", "\r")


def markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown under its title, with notes below."""

    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def show(cell: Cell) -> str:
        text = _markdown(shown(cell))
        return f"**{text}**" if isinstance(cell, Measured) and cell.best else text

    lines = [f"**{_markdown(table.title)}**", ""]
    lines += [line([_markdown(column.name) for column in table.columns])]
    lines += [line(["---"] * len(table.columns))]
    for row, _ in _groups(table):
        lines.append(line([show(cell) for cell in row]))
    lines += [text for note in table.notes for text in ("", _markdown(note))]
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    r"""Return a float with a booktabs table; the document needs `\usepackage{booktabs}`."""

    def show(cell: Cell) -> str:
        text = _latex(shown(cell))
        text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)e(-?\d+)(?!\w)", _power, text)
        return rf"\textbf{{{text}}}" if isinstance(cell, Measured) and cell.best else text

    lines = [r"\begin{table}", r"  \centering", rf"  \caption{{{_latex(table.title)}}}"]
    if table.label:
        lines.append(rf"  \label{{{table.label}}}")
    lines += [rf"  \begin{{tabular}}{{{'l' * len(table.columns)}}}", r"    \toprule"]
    lines += [f"    {' & '.join(_latex(column.name) for column in table.columns)} \\\\"]
    lines += [r"    \midrule"]
    for row, apart in _groups(table):
        lines += [r"    \addlinespace"] * apart
        lines.append(f"    {' & '.join(show(cell) for cell in row)} \\\\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    if table.notes:
        lines += [r"", r"  \medskip", r"  \parbox{\linewidth}{\footnotesize"]
        lines += [rf"    {_latex(note)}\par" for note in table.notes]
        lines += [r"  }"]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def csv_text(table: Table) -> str:
    """Return a table of plain numbers; the ends of intervals have columns of their own.

    Notes come first, in lines that begin with "#" (`pandas.read_csv(…, comment="#")`).
    """
    heads: list[str] = []
    rows: list[list[object]] = [[] for _ in table.rows]
    for number, column in enumerate(table.columns):
        cells = [row[number] for row in table.rows]
        parts: dict[str, Callable[[Cell], object]] = {column.key: _plain}
        if any(isinstance(cell, Measured) and cell.low is not None for cell in cells):
            parts |= {f"{column.key}_{end}": _end(end) for end in ("low", "high")}
        if any(isinstance(cell, Measured) and cell.remark for cell in cells):
            parts |= {f"{column.key}_remark": lambda cell: getattr(cell, "remark", "")}
        heads += parts
        for row, cell in zip(rows, cells, strict=True):
            row += [part(cell) for part in parts.values()]
    out = io.StringIO()
    for note in (table.title, *table.notes):
        out.write(f"# {' '.join(note.split())}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([heads, *rows])
    return out.getvalue()


WRITERS: dict[str, Callable[[Table], str]] = {"md": markdown, "tex": latex, "csv": csv_text}
"""The writers by the suffix of the file."""


def shown(cell: Cell) -> str:
    """Return a cell as text for people."""
    if isinstance(cell, Measured):
        return _measured(cell)
    if cell is None or isinstance(cell, bool):
        return {None: "none", True: "yes", False: "no"}[cell]
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        if cell == math.inf:
            return "∞"
        text = f"{cell:g}" if cell == 0 or abs(cell) >= 1e-3 else f"{cell:.6e}"
        return re.sub(r"\.?0*e([+-])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", text)
    return cell


def _measured(cell: Measured) -> str:
    def number(value: float) -> str:
        rounded = round(value, cell.decimals) + 0.0  # 0.0 rather than −0.0
        return f"{rounded:.{cell.decimals}f}".replace("-", "−")

    text = number(cell.value)
    if cell.low is not None and cell.high is not None:
        up, down = cell.high - cell.value, cell.value - cell.low
        text += {
            "errors": f" +{number(up)} −{number(down)}",
            "symmetric": f" ± {number(up)}",
            "interval": f" [{number(cell.low)}, {number(cell.high)}]",
        }[cell.form]
    return f"{text} {cell.remark}".strip()


def _plain(cell: Cell) -> object:
    """Return a cell for CSV: plain numbers, and no text that a spreadsheet would compute."""
    if isinstance(cell, Measured):
        return _rounded(cell.value, cell)
    if isinstance(cell, str):
        # A lone carriage return would end the line: the writer only quotes its own line ends.
        text = cell.replace("\r\n", "\n").replace("\r", "\n")
        return f"'{text}" if cell.startswith(_FORMULA) else "" if cell == ABSENT else text
    return "" if cell is None else cell


def _end(which: str) -> Callable[[Cell], object]:
    def end(cell: Cell) -> object:
        if not isinstance(cell, Measured) or (value := getattr(cell, which)) is None:
            return ""
        return _rounded(value, cell)

    return end


def _rounded(value: float, cell: Measured) -> float:
    return round(value, cell.decimals + 3) + 0.0  # 0.0 rather than −0.0


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(lambda match: "\\" + match[0], " ".join(text.split()))


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _power(match: re.Match[str]) -> str:
    r"""Return a match of `5e-4` as $5\times10^{-4}$."""
    factor = "" if match[1] == "1" else rf"{match[1]}\times"
    return f"${factor}10^{{{match[2]}}}$"


def _groups(table: Table) -> Iterator[tuple[tuple[Cell, ...], bool]]:
    """Yield (row, whether a group begins above it); only a group's first row has a first cell."""
    names = [row[0] for row in table.rows]
    several = len(set(names)) < len(names)
    for i, row in enumerate(table.rows):
        if i and names[i] == names[i - 1]:
            yield ("", *row[1:]), False
        else:
            yield row, bool(i) and several
