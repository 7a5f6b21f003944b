"""Input that no one should give: values, texts and tables, and what may become of them."""

import copy
import math
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SECONDS = 30
DEEP = 500

# None of these is valid where a number, a name, a list or a table is wanted, but for a few.
VALUES = [
    -1,
    0,
    1,
    2**31,
    2**32,
    2**63 - 1,
    -(2**63),
    True,
    0.5,
    -0.5,
    1e39,
    1e-46,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "x",
    "x" * 300,
    "../../x",
    "\x1b[31mred",
    "naïve",
    "1",
    [],
    [1, "a"],
    [[1]],
    [-1],
    [2**31],
    {},
    {"a": 1},
    {"": {}},
]

TEXTS = [
    "",
    " ",
    "-1",
    "0",
    "1.5",
    "1e39",
    "1e-46",
    "nan",
    "inf",
    "-inf",
    "none",
    "true",
    "x",
    "x" * 300,
    "9" * 5000,
    "-" + "9" * 5000,
    "1e" + "9" * 400,
    str(2**31),
    str(2**63),
    "1,,2",
    "1,x",
    "0:1000000000000",
    "1:0",
    "[" * DEEP,
    "=",
    "a=b=c",
    "\x1b[31mred",
    "٣",
    "1_000",
    "../../x",
    "%s%n",
    "$(x)",
]

DOCUMENTS = {
    "arrays": "a = " + "[" * DEEP + "]" * DEEP,
    "tables": "[" + ".".join(["a"] * DEEP) + "]\n",
    "inline": "a = " + "{a = " * DEEP + "1" + "}" * DEEP,
    "dotted": ".".join(["a"] * DEEP) + " = 1\n",
    "digits": "a = " + "9" * 5000,
    "beyond": f"a = {2**63}",
    "float": "a = " + "9" * 400 + ".0",
    "hexadecimal": "a = 0x" + "f" * 5000,
    "name": "x" * 300 + " = 1",
    "twice": "a = 1\na = 2",
    "open": 'a = "',
    "null": "a = \x00",
    "control": 'a = "\x1b[31m"',
    "date": "kind = 1979-05-27",
    "empty": "",
    "bom": "\ufeffkind = 'supervised'",
}


@contextmanager
def in_time(case: object) -> Iterator[None]:
    """Raises where a case takes longer than any should."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s: {str(case)[:200]}")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def places(table: object, where: tuple = ()) -> Iterator[tuple]:
    """The way to every value and every table in a table; of a list, to itself and its first."""
    if where:
        yield where
    if isinstance(table, Mapping):
        for name, value in table.items():
            yield from places(value, (*where, name))
    elif isinstance(table, list) and table:
        yield from places(table[0], (*where, 0))


def changed(table: dict, where: tuple, value: object) -> dict:
    """A copy with another value at a place."""
    new = copy.deepcopy(table)
    inner = new
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = copy.deepcopy(value)
    return new


def at(table: object, where: tuple) -> object:
    for name in where:
        table = table[name]  # pyright: ignore
    return table


def tables(table: dict) -> list[tuple[tuple, object]]:
    """(place, value): every value at every place, and nothing there (None)."""
    return [(where, value) for where in places(table) for value in [*VALUES, None]]
