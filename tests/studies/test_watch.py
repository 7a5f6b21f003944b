"""Collapse while a study runs: the column, and the end of a method; stopped and resumed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual_learning import cli
from continual_learning.agents.common.trainer import Trainer
from continual_learning.analysis import load
from continual_learning.analysis.curves import curves
from continual_learning.diagnostics import collapsed
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, launch, registry, spec
from continual_learning.studies.early_stopping import CollapseRule, read
from continual_learning.studies.options import RunOptions
from continual_learning.studies.store import documents
from continual_learning.studies.store.store import Store

NAN, INF = np.nan, np.inf
RULE = CollapseRule(drop=8, sustained=4, bin=2)
TEXT = "drop=8,sustained=4,bin=2"
"""The rule on the command line."""
FIRST = dataclasses.replace(RULE, stop_seeds=1)
ROWS = 3  # per chunk; bins of two steps do not end with it
RETURNS = {
    # By bins of two steps, from the third: below since step 4, for long enough at step 8.
    "adam": [
        [0, 0, 9, 9, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9],
        [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        [0, 9, NAN, 9, 0, NAN, NAN, INF, 0, NAN, -1, 0, 0, -INF, 0],
    ],
    "cpr": np.tile(np.arange(15), (3, 1)),
    # The last bin has a single step, and ends with the run.
    "cbp": [[9] * 12 + [0] * 3] * 3,
}
COLLAPSE = {
    "adam": [
        [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0],
        [0] * 15,
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
    ],
    "cpr": [[0] * 15] * 3,
    "cbp": [[0] * 15] * 3,
}


def scripted(experiment, method, data):
    """A program whose returns are those of the table."""
    table = jnp.asarray(np.array(RETURNS[method], np.float32))

    def init(key, hyper, data):
        return {"seed": jax.random.key_data(key)[1].astype(jnp.int32), "done": jnp.int32(0)}

    def chunk(state, hyper, data):
        step = state["done"] * ROWS + jnp.arange(ROWS, dtype=jnp.int32)
        rows = {"step": step + 1, "task": step, "value": table[state["seed"], step]}
        return state | {"done": state["done"] + 1}, rows

    return Trainer(init, chunk, 5, (), "value")


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(build, "data", lambda experiment: None)
    monkeypatch.setattr(build, "chunks", lambda experiment: 5)
    monkeypatch.setattr(build, "trainer", scripted)


def experiment(collapse=RULE):
    """Fifteen steps; what runs is `scripted`."""
    return registry.get("permuted_digits").override(
        tasks=15, examples_per_task=8, rows_per_task=1, collapse=collapse
    )


def run(path, collapse=RULE, methods=("adam", "cpr", "cbp"), **options):
    study = experiment(collapse), list(methods), [0, 1, 2], path
    return launch.run(*study, RunOptions(**{"quiet": True} | options))


def column(path, method):
    frame = load(path)
    return frame[frame.method == method].collapse.to_numpy().reshape(3, -1).tolist()


@pytest.mark.usefixtures("program")
def test_the_column_by_hand(tmp_path):
    assert run(tmp_path / "study") == 0
    for method, expected in COLLAPSE.items():
        assert column(tmp_path / "study", method) == expected
    assert load(tmp_path / "study").collapse.dtype == np.int8


@pytest.mark.usefixtures("program")
def test_as_judged_from_the_metrics_afterwards(tmp_path):
    others = (
        CollapseRule(drop=0.5, relative=True, sustained=3, bin=1),
        CollapseRule(drop=9, sustained=1, bin=4),
    )
    for i, rule in enumerate((RULE, *others)):
        run(tmp_path / str(i), rule)
        frame = load(tmp_path / str(i))
        frame["value"] = frame["value"].replace([INF, -INF], NAN)
        for method, found in curves(frame, "value", bin=rule.bin).items():
            expected = collapsed(
                found.steps,
                found.values,
                drop=rule.drop,
                relative=rule.relative,
                sustained=rule.sustained,
            )
            live = np.array(column(tmp_path / str(i), method)).any(axis=1)
            assert live.tolist() == expected.tolist()


@pytest.mark.usefixtures("program")
def test_without_it_nothing_changes(tmp_path):
    assert run(tmp_path / "with") == 0 and run(tmp_path / "without", None) == 0
    assert "collapse" not in (tmp_path / "without" / "study.toml").read_text()
    with_it, without = load(tmp_path / "with"), load(tmp_path / "without")
    pd.testing.assert_frame_equal(with_it.drop(columns="collapse"), without, check_exact=True)
    assert "collapse" not in spec.to_dict(experiment(None))


@pytest.mark.usefixtures("program")
def test_stopped_after_every_chunk(tmp_path):
    path, whole = tmp_path / "study", tmp_path / "whole"
    codes = [run(path, methods=["adam"], time_limit=0)]
    codes += [launch.resume(path, RunOptions(quiet=True, time_limit=0)) for _ in range(4)]
    assert codes == [launch.REQUEUE] * 4 + [0]
    assert run(whole, methods=["adam"]) == 0
    pd.testing.assert_frame_equal(load(path), load(whole), check_exact=True)


@pytest.mark.usefixtures("program")
def test_killed_before_a_checkpoint(tmp_path):
    """Parts that are newer than the checkpoint are judged again."""
    path = tmp_path / "study"
    run(path, methods=["adam"], time_limit=0)
    with Store.open(path) as store:
        columns = store.read_part("adam", 0)
        wrong = {"value": columns["value"] - 100, "collapse": columns["collapse"] + 1}
        store.write_part("adam", 1, columns | wrong)
    assert launch.resume(path, RunOptions(quiet=True)) == 0
    assert column(path, "adam") == COLLAPSE["adam"]


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("stop", "rows"),
    [
        ({"stop_seeds": 1}, 9),
        ({"stop_seeds": 2}, 12),
        ({"stop_share": 0.3}, 9),
        ({"stop_share": 0.34}, 12),
    ],
)
def test_the_end_of_a_method(tmp_path, capsys, stop, rows):
    """Of the first seed after step 8, in the third chunk; of the second after 10, in the fourth."""
    path, rule = tmp_path / "study", dataclasses.replace(RULE, **stop)
    assert run(path, rule, quiet=False) == 0
    [(name, value)] = stop.items()
    told = f"Ended by collapse ({TEXT},{name}={value}), with everything kept: adam. They are not "
    assert told in capsys.readouterr().out
    assert load(path).groupby("method").size().to_dict() == {
        "adam": 3 * rows,
        "cbp": 45,
        "cpr": 45,
    }
    expected = [lane[:rows] for lane in COLLAPSE["adam"]]
    assert column(path, "adam") == expected
    said = launch.status(path)
    assert f"adam                 {rows // ROWS} of 5 chunks  ended by collapse" in said
    assert "to resume" not in said and "adam: ended by collapse" in (path / "log.txt").read_text()
    before = load(path)
    assert launch.resume(path) == 0 and "Ended by collapse" in capsys.readouterr().out
    pd.testing.assert_frame_equal(load(path), before, check_exact=True)


@pytest.mark.usefixtures("program")
def test_no_end_without_enough_seeds(tmp_path, capsys):
    assert run(tmp_path / "a", dataclasses.replace(RULE, stop_seeds=3), quiet=False) == 0
    assert run(tmp_path / "b", dataclasses.replace(RULE, stop_share=1.0), quiet=False) == 0
    assert "Ended" not in capsys.readouterr().out and len(load(tmp_path / "a")) == 3 * 45
    assert " ended by collapse" not in launch.status(tmp_path / "b")


@pytest.mark.usefixtures("program")
def test_ended_although_it_was_stopped_too(tmp_path):
    """Chunk by chunk, and the method that ended is left where it is."""
    path, rule, methods = tmp_path / "study", FIRST, ["adam", "cpr"]
    codes = [run(path, rule, methods, time_limit=0)]
    codes += [launch.resume(path, RunOptions(quiet=True, time_limit=0)) for _ in range(7)]
    # Three chunks, the last of which ended the one, and five of the other.
    assert codes == [launch.REQUEUE] * 7 + [0]
    run(tmp_path / "whole", rule, methods)
    pd.testing.assert_frame_equal(load(path), load(tmp_path / "whole"), check_exact=True)


@pytest.mark.usefixtures("program")
def test_a_method_that_ends_with_its_last_chunk_is_finished(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(RETURNS, "cbp", [[9] * 10 + [0] * 5] * 3)
    assert run(tmp_path / "study", FIRST, ["cbp"], quiet=False) == 0
    assert column(tmp_path / "study", "cbp")[0][-2:] == [1, 1]
    assert "Ended" not in capsys.readouterr().out
    assert "5 of 5 chunks  finished" in launch.status(tmp_path / "study")


@pytest.mark.usefixtures("program")
def test_the_last_bin_ends_with_the_run(tmp_path, monkeypatch):
    """Fifteen steps are seven bins and a half; only the half makes it long enough."""
    monkeypatch.setitem(RETURNS, "cbp", [[9] * 12 + [0] * 3] * 3)
    run(tmp_path / "study", dataclasses.replace(RULE, sustained=3), ["cbp"])
    assert column(tmp_path / "study", "cbp")[0] == [0] * 14 + [1]


def test_rules():
    rule = CollapseRule(drop=8000)
    assert (rule.sustained, rule.bin, rule.stops) == (4_000_000, 2_000_000, False)
    assert not rule.ends(3, 3)
    assert CollapseRule(drop=1, stop_seeds=7).ends(3, 3)  # all that there are
    assert not CollapseRule(drop=1, stop_seeds=7).ends(6, 15)


@given(st.integers(1, 40), st.integers(1, 100))
def test_shares_of_seeds(seeds, percent):
    rule = CollapseRule(drop=1, stop_share=percent / 100)
    for count in range(seeds + 1):
        assert rule.ends(count, seeds) == (count * 100 >= percent * seeds)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "collapse: `drop` is missing: how far below the earlier peak"),
        ("drop = 8000", "collapse must be a table of drop, relative, .*; got 'drop = 8000'"),
        (8000, "collapse must be a table of drop, relative, .*; got 8000"),
        ({"drop": 1, "depth": 3}, "collapse: Unknown key 'depth'. Valid: drop, relative"),
        ({"drop": 0}, "collapse: drop must be a number above 0; got 0"),
        ({"drop": -1}, "drop must be a number above 0"),
        ({"drop": NAN}, "drop must be a number above 0"),
        ({"drop": INF}, "drop must be a number above 0"),
        ({"drop": "50%"}, "drop must be a number above 0; got '50%'"),
        ({"drop": 1.01, "relative": True}, "drop must be a share, at most 1; got 1.01"),
        ({"drop": 1, "bin": 0.5}, "bin must be a whole number above 0; got 0.5"),
        ({"drop": 1, "sustained": 0}, "sustained must be a whole number above 0; got 0"),
        ({"drop": 1, "stop_seeds": 1.5}, "stop_seeds must be a whole number above 0"),
        ({"drop": 1, "stop_share": 1.5}, "stop_share must be a share, at most 1; got 1.5"),
        ({"drop": 1, "stop_share": 1, "stop_seeds": 1}, "leave out one"),
    ],
)
def test_rules_that_are_none(values, message):
    with pytest.raises(StudyError, match=message):
        experiment(values)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("drop = 8000", CollapseRule(drop=8000)),
        (
            " drop=50% ;bin = 1e6; sustained=2_000;stop = 3;",
            CollapseRule(drop=0.5, relative=True, bin=1_000_000, sustained=2000, stop_seeds=3),
        ),
        (
            "drop = 8; sustained = 1e12; stop = 34%",
            CollapseRule(drop=8, sustained=2**31 - 1, stop_share=0.34),
        ),
    ],
)
def test_the_text_of_earlier_files(text, rule):
    """As TOML files and studies of version 0.1 have it; written again, it is a table."""
    stored = spec.to_dict(experiment(None)) | {"collapse": text}
    found = spec.from_dict(stored)
    assert found.collapse == rule == read(text)
    assert spec.loads(spec.dumps(found)) == found and "[collapse]" in spec.dumps(found)


@pytest.mark.parametrize(
    "text", ["", "8000", "drop =", "drop = x", "drop = 1; depth = 3", "drop = 1; stop = 1.5"]
)
def test_text_of_earlier_files_that_is_none(text):
    stored = spec.to_dict(experiment(None)) | {"collapse": text}
    with pytest.raises(StudyError, match=r"^collapse: '.*' is not a rule .* Write a table"):
        spec.from_dict(stored)


@pytest.mark.usefixtures("program")
def test_a_study_that_an_earlier_version_began_is_watched_on(tmp_path):
    """Its folder has the text."""
    path = tmp_path / "study"
    assert run(path, FIRST, ["adam"], time_limit=0) == launch.REQUEUE
    content = documents.read(path / "study.toml").content
    content["study"]["experiment"]["collapse"] = "drop = 8; sustained = 4; bin = 2; stop = 1"
    (path / "study.toml").write_bytes(documents.encode(content))
    assert launch.resume(path, RunOptions(quiet=True)) == 0
    assert column(path, "adam") == [lane[:9] for lane in COLLAPSE["adam"]]
    assert "ended by collapse" in launch.status(path)


@pytest.mark.usefixtures("program")
def test_the_command_line(tmp_path, capsys):
    rule = "drop=0.9,relative=true,sustained=4,bin=2"
    words = f"run permuted_digits --methods adam --seeds 3 --out {tmp_path / 's'} --quiet"
    assert cli.main([*words.split(), "--collapse", rule]) == 0
    assert column(tmp_path / "s", "adam") == COLLAPSE["adam"]
    assert load(tmp_path / "s").columns[-1] == "collapse"
    shown = []
    for more in (["--collapse", rule], ["--set", f"collapse={rule}"]):
        assert cli.main(["show", "permuted_digits", *more]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "[collapse]\ndrop = 0.9\nrelative = true\nsustained = 4\nbin = 2\n" in shown[0]
    mine = tmp_path / "mine.toml"
    mine.write_text(shown[0])
    with pytest.raises(SystemExit, match="0"):
        cli.main(["run", str(mine), "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert f"(default: {rule})" in told and "a share of the peak's height" in told
    assert cli.main(["show", str(mine), "--collapse", "none"]) == 0
    assert "[collapse]" not in capsys.readouterr().out
    for wrong, error in (
        ("8000", "collapse: write NAME=VALUE,…; got '8000'"),
        ("drop=1,depth=3", "collapse: Unknown name 'depth'"),
        ("drop=1,drop=2", "collapse: drop is given twice"),
        ("drop=much", "collapse: drop must be a number above 0; got 'much'"),
        ("sustained=4", "collapse: `drop` is missing"),
    ):
        assert cli.main([*words.split(), "--collapse", wrong]) == cli.FAILED
        assert error in capsys.readouterr().err
