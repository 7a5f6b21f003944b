"""The notebook runs, and what it shows is what it says.

`python -m tests.examples.test_quickstart` runs it and puts what it prints and draws into the file.
"""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"
SMALL = {"TASKS": "2", "UPDATES": "4", "SEEDS": "2"}


def read() -> dict[str, Any]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def run(small: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """The names that all cells leave, and what each of them prints."""
    names: dict[str, Any] = {}
    printed = {}
    for cell in read()["cells"]:
        if cell["cell_type"] != "code":
            continue
        code = "".join(cell["source"])
        for name, value in SMALL.items() if small else ():
            code = re.sub(rf"^{name} = \d+", f"{name} = {value}", code, flags=re.MULTILINE)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, cell["id"], "exec"), names)
        printed[cell["id"]] = out.getvalue()
    return names, printed


@pytest.fixture
def brief():
    """Ranks may differ in notebooks: people do not raise for them."""
    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.usefixtures("brief")
def test_every_cell_runs():
    pytest.importorskip("sklearn")
    names, printed = run(small=True)
    assert names["adam"].shape == names["cpr"].shape == (2, 2)
    assert printed["adam"].endswith("in the last five\n")
    chart = names["chart"].to_dict()
    assert len(chart["layer"]) == 2 and len(names["rows"]) == 8


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_collapse_and_rescue():
    names, _ = run(small=False)
    adam, cpr = (np.asarray(names[name]) for name in ("adam", "cpr"))
    first, last = slice(0, 5), slice(-5, None)
    assert (adam[:, last].mean(1) < adam[:, first].mean(1) - 0.1).all()
    assert (cpr[:, last].mean(1) > cpr[:, first].mean(1)).all()
    assert (cpr[:, last].mean(1) > adam[:, last].mean(1) + 0.1).all()


def test_its_outputs_are_there_and_small():
    cells = {cell["id"]: cell for cell in read()["cells"]}
    for name in ("adam", "cpr"):
        [out] = cells[name]["outputs"]
        assert "in the first five tasks" in "".join(out["text"])
    [picture] = cells["picture"]["outputs"]
    assert "".join(picture["data"]["image/svg+xml"]).startswith("<svg")
    assert NOTEBOOK.stat().st_size < 100_000
    outputs = [out for cell in cells.values() for out in cell.get("outputs", [])]
    assert not [out for out in outputs if out["output_type"] == "error"]


def main() -> None:
    """Runs the notebook and writes its outputs into it."""
    import vl_convert

    names, printed = run(small=False)
    book = read()
    count = 0
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        cell["execution_count"], cell["outputs"] = count, []
        if text := printed[cell["id"]]:
            lines = text.splitlines(keepends=True)
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}]
        if cell["id"] == "picture":
            svg = vl_convert.vegalite_to_svg(names["chart"].to_dict())
            data = {"image/svg+xml": svg.splitlines(keepends=True)}
            result = {"data": data, "execution_count": count, "metadata": {}}
            cell["outputs"] = [{**result, "output_type": "execute_result"}]
    text = json.dumps(book, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
