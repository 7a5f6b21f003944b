"""Sections and pages of a report for tests: made by hand, and read back."""

import base64
import json
import re

import numpy as np

from continual_learning.report import studies
from tests.report import report_study

TABLE = {"name": "hand", "title": "By hand", "tasks": 4}


def rows(of_seeds: dict[int, list[float]], **more) -> dict:
    """A row per step, two in each task: {seed: values}."""
    seeds = [seed for seed, values in of_seeds.items() for _ in values]
    steps = [i + 1 for values in of_seeds.values() for i in range(len(values))]
    return {
        "seed": np.array(seeds),
        "step": np.array(steps),
        "task": (np.array(steps) - 1) // 2,
        "test_accuracy": np.array([v for values in of_seeds.values() for v in values]),
        **more,
    }


def by_hand(folder, **methods) -> studies.Section:
    [section] = studies.read([report_study.store(folder, TABLE, methods)])
    return section


def numbers(text: str, kind: str = "<f8") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def unpacked(packed: dict[str, str], log: bool = False) -> np.ndarray:
    """What the page makes of `pack`."""
    low, high = numbers(packed["low"]), numbers(packed["high"])
    codes = numbers(packed["values"], "<u2").reshape(len(low), -1).astype(np.float64)
    codes[codes == 65535] = np.nan
    values = low[:, None] + (high - low)[:, None] * codes / 65534
    return np.exp(values) if log else values


def data_of(page: str) -> dict:
    [text] = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    return json.loads(text)


def text_of(page: str) -> str:
    body = page[page.index("<main") : page.index("</footer>")]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())
