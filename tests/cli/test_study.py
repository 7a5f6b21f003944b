"""A real study from the command line: run, stopped, resumed, read."""

from continual_learning import cli
from continual_learning.analysis import load


def test_a_study(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = str(tmp_path / "study")
    words = ["run", "random_labels", "--scale", "smoke", "--methods", "adam,redo", "--seeds", "2"]
    words += ["--hidden", "8", "--set", "redo.every=5", "--out", path, "--quiet"]
    assert cli.main([*words, "--time-limit", "0.001s"]) == 75
    assert cli.main(["status", path]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 chunks  to resume" in out and "0 of 2 chunks  not begun" in out
    assert cli.main(["resume", path]) == 0
    assert "redo: chunk 2/2" in capsys.readouterr().out
    table = load(path)
    assert table.groupby(["method", "seed"]).task.count().eq(2).all()
    assert table[table.method == "redo"].units_reset.max() > 0
    assert cli.main(words) == 2
    assert "holds a study already" in capsys.readouterr().err
