"""The meaning of a study's columns: a title, a line of explanation, a unit, a direction."""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Iterable
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A column of a study, and how it is shown: a line of `metrics.csv`.

    Attributes:
      group: the heading under which it is shown.
      name: the column.
      title: its name on the page.
      unit: "%" of a share, which is shown as a percentage; "" where it has none.
      better: whether higher or lower values are better; None where neither is.
      text: its explanation in a line.
    """

    group: str
    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"] | None
    text: str

    @property
    def share(self) -> bool:
        """Whether it is a share of something."""
        return self.unit == "%"


def _read() -> dict[str, Metric]:
    file = importlib.resources.files("continual_learning.diagnostics") / "metrics.csv"
    rows = csv.DictReader(file.read_text("utf-8").splitlines())
    return {row["name"]: Metric(**{**row, "better": row["better"] or None}) for row in rows}


METRICS = _read()
"""All by name, in the order of the page; `metric` also knows those of one network or one task."""

_OURS = frozenset(METRICS)
NETWORKS = ("policy", "value", "actor", "critic", "critic_1", "critic_2", "q")
_SHARES = ("_ratio", "accuracy", "_fraction", "success", "success_ever")


def register(metric: Metric) -> None:
    """Add the description of a column that an agent or environment of a user reports."""
    if metric.name in _OURS:
        raise ValueError(f"{metric.name} is ours: choose another name for the column.")
    METRICS[metric.name] = metric


def metric(column: str) -> Metric:
    """Return how a column is shown; `policy_dormant_ratio` is `dormant_ratio` of one network.

    `eval_NAME` and `eval_NAME_success` are evaluations on one task.
    """
    part, base = _split(column)
    if base not in METRICS:
        better = "lower" if column.endswith(("loss", "error")) else "higher"
        unit = "%" if column.endswith(_SHARES) else ""
        return Metric("Other", column, column, unit, better, "A column of the study.")
    found = METRICS[base]
    if not part:
        return found
    text = found.text if base.startswith("eval") else f"{found.text} Of the {part} network."
    return found._replace(name=column, title=f"{found.title}, {part}", text=text)


def grouped(columns: Iterable[str]) -> dict[str, list[str]]:
    """Return {group: its columns}, in the order of the page; unknown columns come last."""
    order = {name: i for i, name in enumerate(METRICS)}
    found: dict[str, list[str]] = {}
    for column in sorted(columns, key=lambda each: order.get(_split(each)[1], len(order))):
        found.setdefault(metric(column).group, []).append(column)
    return found


def known(column: str) -> bool:
    """Return whether a column is one of `METRICS`, also of one network or one task."""
    return _split(column)[1] in METRICS


def _split(column: str) -> tuple[str, str]:
    """Return the network or task of a column, or "", and the rest of its name.

    `policy_dormant_ratio` gives ("policy", "dormant_ratio"), `eval_asterix` ("asterix", "eval"),
    `eval_push_success` ("push", "eval_success"), and others give ("", column).
    """
    if column in METRICS:
        return "", column
    if column.startswith("eval_"):
        for measure in ("_success_ever", "_success", ""):
            if column.endswith(measure):
                return column.removeprefix("eval_").removesuffix(measure), f"eval{measure}"
    for network in NETWORKS:
        base = column.removeprefix(f"{network}_")
        if base != column and base in METRICS:
            return network, base
    return "", column
