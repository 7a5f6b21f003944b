import numpy as np

from examples import language_model


def test_a_short_run_leaves_numbers_and_a_picture(tmp_path, capsys):
    losses = language_model.main(
        ["--seeds", "2", "--tasks", "2", "--steps", "60", "--out", str(tmp_path)]
    )
    assert {name: runs.shape for name, runs in losses.items()} == {"Adam": (2, 2), "CPR": (2, 2)}
    assert (losses["Adam"] < np.log(language_model.CHARACTERS) - 0.5).all()
    assert (losses["Adam"] != losses["CPR"]).any()
    assert len((tmp_path / "losses.csv").read_text().splitlines()) == 1 + 2 * 2 * 2
    assert "nats per character" in (tmp_path / "losses.svg").read_text()
    assert capsys.readouterr().out.count("over the last") == 2
