"""A study whose every name wants to be a script."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.report import report_study
from tests.studies.edited import edit

ATTACKS = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<!--<script>window.hacked = 1</script>-->",
    "\"><svg onload=\"window.hacked = 1\">' onfocus='window.hacked = 1' autofocus='",
    "</title></style><script>alert(1)</script>\u2028$style ${hacked} `",
)
METHOD = "<b onmouseover=alert(1)>evil"
COLUMN = "<i>loss</i>" + ATTACKS[0]
FOLDER = "a\"><img src=x onerror='alert(1)'>&amp; javascript:alert(1)"


def write(parent: Path) -> Path:
    """Writes the study; method names are not what the store allows, so its files are rewritten."""
    seeds, steps = np.repeat([0, 1], 8), np.tile(np.arange(1, 9), 2)
    columns = {
        "seed": seeds,
        "step": steps,
        "task": (steps - 1) // 2,
        "test_accuracy": np.linspace(0, 1, 16),
        COLUMN: np.linspace(1, 2, 16),
        "<u>slope</u>": np.tile(np.arange(4.0), 2).repeat(2),
        "hyper_<s>": np.tile([0.1, 0.2], 8)[np.argsort(np.argsort(seeds, kind="stable"))],
    }
    table = {"name": ATTACKS[1], "title": " ".join(ATTACKS), "kind": ATTACKS[2], "tasks": 4}
    folder = report_study.store(parent / FOLDER, table, {"evil": columns, "adam": columns})
    part = folder / "metrics/evil/part-000000.parquet"
    rows = pq.read_table(part)
    names = pa.array([METHOD] * len(rows))
    pq.write_table(rows.set_column(0, "method", names), part)
    edit(folder / "study.toml", '"evil"', f"'{METHOD}'")
    (folder / "environment.json").write_text('{"note": "' + ATTACKS[0] + ATTACKS[2] + '"}')
    (folder / "log.txt").write_text(ATTACKS[1])
    return folder
