"""Tables as text: cells, settings, and names that are hostile."""

import csv
import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from continual_learning.paper import tables
from continual_learning.paper.tables import Column, Measured, Table
from continual_learning.paper.tables.table import mark_best
from continual_learning.paper.tables.writers import csv_text, latex, markdown, shown
from continual_learning.studies import registry


@pytest.mark.parametrize(
    "id",
    [
        "ppo_hyperparameters",
        "network_architecture",
        "hyper_sweep",
        "cmw_sac_params",
        "mt1_reset_params",
        "minatar_reset_params",
        "cmw_reset_params",
    ],
)
def test_settings_differ_only_where_they_must(id):
    """Everywhere else our experiments have the paper's values."""
    marked = [row[:-1] for row in tables.make(id).rows if row[-1]]
    different = {
        "ppo_hyperparameters": [("Steps per Task", 20_000_000, "20,054,016 / 20,316,160")],
        "network_architecture": [
            ("Policy Network", "Output Size", 8, "16: a mean and a deviation for each of 8 actions")
        ],
    }
    assert marked == different.get(id, [])


def test_a_setting_that_differs_is_marked(monkeypatch):
    changed = registry.get("slippery_ant").override(**{"cpr.max_reset": 0.5, "redo.every": 7})
    get = registry.get
    monkeypatch.setattr(
        registry, "get", lambda name: changed if name == changed.name else get(name)
    )
    marked = [row for row in tables.make("hyper_sweep").rows if row[-1]]
    assert [row[1] for row in marked] == ["Max Per-unit Reset", "Update Frequency"]
    assert marked[0][3:] == ("0.015 / 0.05", "0.5 / 0.05", "≠")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "yes"),
        (20_000_000, "20,000,000"),
        (0.015, "0.015"),
        (1e-3, "0.001"),
        (3e-4, "3e-4"),
        (2.5e-4, "2.5e-4"),
        (1e-10, "1e-10"),
        (0.0, "0"),
        ("x", "x"),
        (Measured(75.6, 61.3, 89.9, "symmetric", 1), "75.6 ± 14.3"),
        (Measured(-3.0), "−3"),
        (Measured(-0.001, -0.004, 0.002, "interval", 2), "0.00 [0.00, 0.00]"),
        (Measured(1.0, 0.5, 2.5, "interval", 1, remark="at 3M"), "1.0 [0.5, 2.5] at 3M"),
    ],
)
def test_cells(value, text):
    assert shown(value) == text


def test_powers_in_latex():
    table = Table("t", (Column("a", "a"),), ((5e-5,), ("1e-4, 2e5, 3em, x1e5",), (1e-4,)))
    lines = latex(table).splitlines()[7:10]
    assert [line.removesuffix(" \\\\").strip() for line in lines] == [
        r"$5\times10^{-5}$",
        r"$10^{-4}$, $2\times10^{5}$, 3em, x1e5",
        "$10^{-4}$",
    ]


HOSTILE = [
    "a | b",
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "*bold* _it_ `code` # not a heading",
    "\\input{/etc/passwd} \\\\ & % $x^2$ ~ {}",
    "two\nlines\r\n\r\nand more",
    "=1+2",
    "back\\slash|",
]


def hostile_table(text: str) -> Table:
    return Table(text, (Column(text, "a"), Column("b", "b")), ((text, text), (text, 1)), (text,))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    table = hostile_table(text)
    shown_markdown = markdown(table)
    assert not re.search(r"(?<!\\)[<>*`](?<!\*\*)(?!\*)", shown_markdown.replace("**", ""))
    assert not re.search(r"(?<!\\)\]\(", shown_markdown)
    assert all(
        len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
        for line in shown_markdown.splitlines()
        if line.startswith("|")
    )
    body = latex(table)
    assert "\\input" not in body and not re.search(r"(?<!\\)\$x", body)
    assert all(len(re.findall(r"(?<!\\)&", line)) in (0, 1) for line in body.splitlines())


@given(st.text())
@example("\r")
@example("a\r\nb")
def test_any_text_is_one_cell(text):
    table = hostile_table(text)
    for line in markdown(table).splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
    rows = latex(table).split("\\midrule\n")[1].split("    \\bottomrule")[0]
    assert len(rows.rstrip("\n").split("\n")) == 2
    assert set(re.findall(r"(?<!\\)[&%#_~]", rows)) <= {"&"}
    read = list(csv.reader(io.StringIO(csv_text(table).split("\n", 2)[2])))
    assert [len(row) for row in read if row] == [2, 2, 2]
    lines = text.lstrip("'").replace("\r\n", "\n").replace("\r", "\n")
    assert read[1][0].lstrip("'") == lines or "\0" in text


def test_the_best_of_a_column():
    rows = [["a", Measured(1)], ["b", Measured(3)], ["c", "—"], ["d", Measured(3)]]
    marked = mark_best(rows, 1)
    assert [getattr(row[1], "best", None) for row in marked] == [False, True, None, True]
    assert not mark_best([["a", Measured(1)]], 1)[0][1].best  # of one there is no best


def test_rows_must_fit():
    with pytest.raises(ValueError, match="A row has 1 cells; the table has 2 columns"):
        Table("t", (Column("a", "a"), Column("b", "b")), ((1,),))
