import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from examples import plasticity_demo


def test_writes_pictures_and_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plasticity_demo, "STEPS_PER_TASK", 5)
    plasticity_demo.main(["--tasks", "2", "--seeds", "2", "--out", str(tmp_path)])

    png = (tmp_path / "plasticity.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG")
    assert width > 1000 and height > 500
    assert len(png) > 20_000

    svg = ET.parse(tmp_path / "plasticity.svg").getroot()
    text = " ".join(svg.itertext())
    for label in ("Adam + CPR", "labels recalled", "dormant hidden units", "2 seeds"):
        assert label in text
    assert "Adam + CPR" in capsys.readouterr().out


def test_dormant_share_counts_silent_units():
    one_of_four = np.array([[1.0, 1.0, 1.0, 0.01], [1.0, 1.0, 1.0, 0.01]])
    none_of_four = np.ones((2, 4))
    share = plasticity_demo.dormant_share([one_of_four, none_of_four])
    assert share == pytest.approx(1 / 8)


@pytest.mark.slow
def test_adam_declines_and_cpr_does_not():
    results = plasticity_demo.compare(tasks=40, seeds=2)
    adam, cpr = (plasticity_demo.first_and_last(r.accuracy) for r in results.values())
    assert adam[1] < adam[0] - 0.2
    assert cpr[1] > cpr[0] - 0.05
