"""Numbers in the texts of results/ are those of the files beside them."""

import json
from pathlib import Path

import pandas as pd
import pytest

from results.agents import summarize as agents
from results.continual_minatar import bookkeeping
from results.continual_minatar import summarize as continual_minatar
from results.permuted_mnist import summarize
from results.random_labels import summarize as random_labels
from results.slippery_ant import summarize as slippery_ant
from results.slippery_ant_as_released import summarize as as_released

FOLDER = Path(summarize.__file__).parent


@pytest.mark.parametrize("measure", summarize.ACCURACIES)
def test_the_tables_of_permuted_mnist(measure):
    table = summarize.table(pd.read_csv(FOLDER / "blocks.csv"), measure)
    assert table in (FOLDER / "README.md").read_text()


def test_the_files_of_permuted_mnist_agree():
    """A block of a method is the mean of its tasks, in both files."""
    curves, blocks = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("curves", "blocks"))
    names = [*summarize.ACCURACIES, *summarize.OTHERS]
    first = (curves.task // summarize.BLOCK * summarize.BLOCK).rename("first_task")
    left = curves.groupby(["method", first])[names].mean()
    right = blocks.groupby(["method", "first_task"])[names].mean()
    assert len(left) == 6 * 10
    pd.testing.assert_frame_equal(left, right, rtol=1e-4)


def test_older_thresholds_of_permuted_mnist():
    text = (FOLDER / "README.md").read_text()
    older, blocks = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("thresholds", "blocks"))
    last = older[older.first_task == 180].set_index("method")
    published = blocks[blocks.first_task == 180].set_index("method")
    for measure in summarize.ACCURACIES:
        assert summarize.table(older, measure, ["redo", "regrama"]) in text
        assert last.loc["redo", measure].min() > published[measure].max()
        assert last.loc["regrama", measure].min() > published.loc["regrama", measure].max()
    shares = summarize.share_reset(older).groupby("method").mean().round(2)
    assert shares.to_dict() == {"redo": 0.25, "regrama": 0.37}
    for measure, said in (("test_accuracy", (95.07, 95.58)), ("online_accuracy", (92.96, 92.61))):
        means = last.loc["regrama", measure].mean(), published.loc["cpr", measure].mean()
        assert tuple(round(100 * mean, 2) for mean in means) == said


def test_the_table_of_agents():
    folder = Path(agents.__file__).parent
    assert agents.table(pd.read_csv(folder / "curves.csv")) in (folder / "README.md").read_text()


def test_the_table_of_random_labels():
    folder = Path(random_labels.__file__).parent
    rows = pd.read_csv(folder / "curves.csv")
    assert random_labels.table(rows) in (folder / "README.md").read_text()
    assert (rows.groupby("method").size() == 3 * 40).all()
    last = rows[rows.task >= 35].groupby("method").train_accuracy.mean()
    assert (f"{last.adam:.1%}", f"{last.shrink_perturb:.1%}") == ("69.5%", "77.6%")
    assert last.drop(["adam", "shrink_perturb"]).min() > 0.99


def test_the_table_of_slippery_ant():
    folder = Path(slippery_ant.__file__).parent
    chunks = pd.read_csv(folder / "curves.csv")
    assert slippery_ant.table(chunks) in (folder / "README.md").read_text()
    assert len(chunks) == 2 * 4 * 85 and (chunks.diverged == 0).all()
    rewards = slippery_ant.ends(chunks).pivot(
        index=["seed", "task"], columns="method", values="reward"
    )
    assert (rewards.cpr < rewards.adam).sum() == 19
    assert round((rewards.adam - rewards.cpr).mean(), 2) == 0.29
    dormant = slippery_ant.ends(chunks).pivot(
        index=["seed", "task"], columns="method", values="dormant_ratio"
    )
    assert (dormant.cpr < dormant.adam).sum() == 19
    assert dormant.groupby("task").mean().round(3).loc[4].to_dict() == {"adam": 0.095, "cpr": 0.072}
    overall = chunks.groupby("method").reward.mean().round(2)
    assert overall.to_dict() == {"adam": 3.97, "cpr": 3.75}


def test_what_is_said_of_slippery_ant_as_released():
    folder = Path(as_released.__file__).parent
    text, curves = (folder / "README.md").read_text(), as_released.ours()
    assert as_released.table(curves) in text
    found = as_released.ends(curves)
    long = found[found.steps > 300e6]
    assert [*long.method] == ["adam"] * 4 and (curves.diverged == 0).all()
    for column, said in (("peak", "8,105 to 8,374"), ("last", "7,619\n  to 8,236")):
        low, high = long[column].min(), long[column].max()
        assert said.replace("\n  ", " ") == f"{low:,.0f} to {high:,.0f}" and said in text
    assert as_released.beside_paper(curves) in text
    assert f"{found.deepest_fall.max():,.0f}" == "1,791"
    assert 0.44 <= long.dormant_value.min() <= long.dormant_value.max() <= 0.5314


def test_the_table_of_continual_minatar():
    folder = Path(continual_minatar.__file__).parent
    rows = pd.read_csv(folder / "curves.csv")
    assert continual_minatar.table(rows) in (folder / "README.md").read_text()
    assert continual_minatar.beside_paper(rows) in (folder / "README.md").read_text()
    assert (rows.groupby("method").size() == 5 * 75).all()
    assert [*rows.method.unique()] == [*continual_minatar.STUDY.methods]


def test_what_is_said_of_the_papers_bookkeeping():
    folder = Path(continual_minatar.__file__).parent
    found = json.loads((folder / "bookkeeping.json").read_text())
    text = (folder / "README.md").read_text()
    for key, label in (
        ("alone", "left alone"),
        ("with_evaluations", "with the trainer's evaluations"),
    ):
        row = found[key]
        cells = [
            row["episodes"],
            row["true_return"],
            f"{row['cut_by_the_limit']:.0%}".replace("%", " %"),
        ]
        cells += [row["logged_mean"], row["logged_highest"]]
        assert " | ".join(map(str, [f"| {label}", *cells])) + " |" in text
    # More than an episode of 1,000 steps can pay.
    assert found["with_evaluations"]["logged_mean"] > 200 > found["alone"]["logged_highest"]


def test_the_player_of_the_bookkeeping_lives_long():
    found = bookkeeping.logged(evaluations=False, steps=300)
    assert found["episodes"] < 6


def test_what_is_said_of_continual_minatar():
    ends = continual_minatar.ends(pd.read_csv(continual_minatar.CURVES))
    seeds = ends.groupby(["task", "method", "seed"])[continual_minatar.MEASURES].mean()
    asterix = seeds.loc[1].latest_return.groupby("method")
    assert asterix.min().cpr > asterix.max().drop(["cpr", "cbp"]).max()
    assert asterix.min().round(1).cpr == 25.0 and asterix.max().round(1).cbp == 25.8
    assert (asterix.get_group("cbp") > asterix.min().cpr).sum() == 1
    seaquest = seeds.loc[2]
    lost = (seaquest.entropy > 1.59).groupby("method").sum()
    one = dict.fromkeys(["cbp", "cpr", "regrama"], 1)
    assert lost.to_dict() == {"adam": 0, "redo": 3, "shrink_perturb": 2, **one}
    assert (seaquest.latest_return < 0.05).equals(seaquest.entropy > 1.59)
    others = seaquest.drop(["cpr", "cbp"])
    assert others.dormant_ratio.min() > 0.7 and others.srank.max() < 55
    alive = seaquest[seaquest.entropy < 1.59]
    assert 0.09 < alive.loc["cpr"].dormant_ratio.min() < alive.loc["cpr"].dormant_ratio.max() < 0.13
    assert alive.loc["cpr"].srank.min() > 130
    assert 0.36 < alive.loc["cbp"].dormant_ratio.min() < alive.loc["cbp"].dormant_ratio.max() < 0.56
    assert 74 < alive.loc["cbp"].srank.min() < alive.loc["cbp"].srank.max() < 106


def test_the_resets_of_continual_minatar():
    counted = pd.read_csv(continual_minatar.RESETS).set_index(["method", "task"]).sort_index()
    networks = [*counted.filter(like="units_reset")]
    assert len(networks) == 3
    for task in range(3):
        assert (counted.loc[("cbp", task), networks] == 70 * (task + 1)).all(axis=None)
    for method in ("redo", "regrama"):
        assert counted.loc[(method, 2), networks].max(axis=None) == 3 * 8
        assert counted.loc[(method, 0), "policy_units_reset"].max() <= 3
    often = counted.loc[("redo_every_1000", 0), [*counted.filter(like="critic")]]
    assert often.size == 10 and round(often.to_numpy().mean(), -1) == 630


def test_the_other_settings_of_continual_minatar():
    folder = Path(continual_minatar.__file__).parent
    rows, others = (pd.read_csv(folder / f"{name}.csv") for name in ("curves", "settings"))
    text = (folder / "README.md").read_text()
    assert all(table in text for table in continual_minatar.comparisons(rows, others))
    averages = rows[rows.method == "adam"].groupby("task").latest_return.mean()
    freely = others[others.method == "adam_without_sticky"].latest_return.mean()
    assert (round(averages[0]), round(freely)) == (105, 142)
    assert round((freely + averages[1] + averages[2]) / 3) == 49
