"""Tables from the data that `results/` keeps, without the studies."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from continual_learning.paper import kept, tables
from continual_learning.paper.status import RUN, TIMED
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def cells(table, method: str, source: str):
    [row] = [row for row in table.rows if row[:2] == (method, source)]
    return row[2:]


def test_the_table_of_the_games_is_that_of_its_page():
    """The page has the table that was made of the studies themselves."""
    table = tables.make("continual_minatar", [RESULTS / "continual_minatar"])
    average, final = cells(table, "CPR", "latest_return, IQM of seeds")
    page = (RESULTS / "continual_minatar/README.md").read_text()
    for found in (average, final):
        said = f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"
        assert said in page
    assert "5 seeds of 4.5M environment steps" in table.notes[0]
    assert "The numbers come from curves.csv, means of bins" in table.notes[0]
    assert not {"Unfinished", "Smaller"} & set(table.notes[0].replace(":", "").split())


def test_what_is_left_of_the_games():
    table = tables.make("minatar_forgetting", [RESULTS / "continual_minatar"])
    assert table.rows[0][0] == "CPR"
    assert all(np.isfinite(cell.value) for row in table.rows for cell in row[1:])


def test_the_ant_is_as_long_as_it_was_run():
    table = tables.make("ant_iqr", [RESULTS / "slippery_ant"])
    assert "4 seeds of 100M environment steps." in table.notes[0]
    assert "Smaller than the paper's: 100M of 400M steps, 4 of 15 seeds." in table.notes[0]
    assert cells(table, "CBP", "episode_return, IQM of seeds")[0] == "—"


def test_the_times_of_a_folder():
    by_folder = tables.make("runtime", [RESULTS / "runtime"])
    assert by_folder == tables.make("runtime", [RESULTS / "runtime/h200_ant.json"])


def test_a_folder_of_bins(tmp_path):
    """Known numbers; the mean over evaluations is of the games met so far."""
    folder = tmp_path / "continual_minatar"
    folder.mkdir()
    rows = pd.DataFrame(
        {
            "method": "cpr",
            "seed": [0, 0, 1, 1],
            "task": [0, 1, 0, 1],
            "until": [1_500_000, 3_000_000] * 2,
            "latest_return": [1.0, 2.0, 3.0, 4.0],
            "eval_space_invaders": [10.0, 20.0, 30.0, 40.0],
            "eval_asterix": [np.nan, 0.0, np.nan, 20.0],
        }
    )
    rows.to_csv(folder / "curves.csv", index=False)
    assert kept.is_kept(folder)
    found = kept.folder(folder)
    assert (found.spec.tasks, found.methods, found.seeds) == (2, ("cpr",), (0, 1))
    frame = kept.frame(found)
    np.testing.assert_allclose(frame.eval_seen, [10, 10, 30, 30])
    assert list(frame.step) == [1_500_000, 3_000_000] * 2
    with pytest.raises(StudyError, match="curves in bins cannot be combined with other runs"):
        tables.make("continual_minatar", [folder, folder])


@pytest.mark.parametrize("name", ["permuted_mnist", "runtime", "."])
def test_other_folders_are_not_taken_for_it(name):
    assert not kept.is_kept(RESULTS / name)


def test_every_page_of_a_status_is_there():
    for each in (*RUN.values(), TIMED):
        assert each.page is not None and (ROOT / each.page).is_file()
    assert set(RUN) <= {*registry.names(), *registry.ablations()}
