import struct
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from continual_learning import report
from examples import plasticity_demo


def test_writes_pictures_and_a_table_and_can_be_run_again(tmp_path, capsys):
    for _ in range(2):  # the second time nothing is left to train
        plasticity_demo.main(["--tasks", "2", "--seeds", "2", "--out", str(tmp_path)])

    png = (tmp_path / "plasticity.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG")
    assert width > 1000 and height > 500
    assert len(png) > 20_000

    svg = ET.parse(tmp_path / "plasticity.svg").getroot()
    text = " ".join(svg.itertext())
    for label in (*plasticity_demo.METHODS, "labels recalled", "dormant hidden units", "2 seeds"):
        assert label in text
    found = pd.read_csv(tmp_path / "plasticity.csv", index_col="method")
    assert list(found.index) == list(plasticity_demo.METHODS)
    assert (found["recalled, first"] > 0.5).all()
    printed = capsys.readouterr().out
    assert "recalled, last" in printed
    assert printed.splitlines()[-1].endswith(str(tmp_path / "report.html"))
    assert report.MARK in (tmp_path / "report.html").read_bytes()


def test_the_table_by_hand():
    rows = [
        {
            "method": method,
            "seed": seed,
            "task": task,
            "train_accuracy": value,
            "dormant_ratio": 0.1,
        }
        for method, values in {"adam": (1.0, 0.4), "cpr": (0.9, 0.9)}.items()
        for seed in (0, 1)
        for task in range(10)
        for value in [values[task // 5] + 0.1 * seed]
    ]
    found = plasticity_demo.table(pd.DataFrame(rows))
    assert list(found.index) == ["adam", "cpr"]
    assert found.loc["adam"].to_dict() == pytest.approx(
        {
            "recalled, first": 1.05,
            "recalled, last": 0.45,
            "dormant, first": 0.1,
            "dormant, last": 0.1,
            "recalled, last: worst seed": 0.4,
            "best seed": 0.5,
        }
    )


@pytest.mark.slow
def test_adam_declines_and_resets_keep_plasticity(tmp_path):
    metrics = plasticity_demo.study(tmp_path / "study", seeds=2, tasks=45)
    found = plasticity_demo.table(metrics)
    assert found["recalled, last"]["adam"] < found["recalled, first"]["adam"] - 0.2
    for method in ("cpr", "cbp", "redo"):
        assert found["recalled, last: worst seed"][method] > found["best seed"]["adam"]
