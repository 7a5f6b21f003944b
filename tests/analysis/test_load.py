"""Studies as tables, with `load` and with the Parquet files alone."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from continual_learning.analysis import load
from continual_learning.studies.store.store import Store, StoreError
from tests.studies.toy_study import ENVIRONMENT, STUDY, rows_of, state_after, table_of, train


@pytest.fixture
def folder(tmp_path):
    """Two methods, 3 and 2 chunks."""
    path = tmp_path / "study"
    with Store.create(path, STUDY, ENVIRONMENT) as store:
        train(store, "cpr", 3)
        train(store, "adam", 2)
    return path


def make(path, **columns):
    """A study of one chunk, with more columns."""
    with Store.create(path, STUDY, {}) as store:
        store.write_part("cpr", 0, rows_of(0) | columns)
    return path


def test_one_tidy_table(folder):
    frame = load(folder)
    assert frame.equals(table_of({"adam": 2, "cpr": 3}))
    assert list(frame) == ["method", "seed", "step", "task", "accuracy"]
    assert list(frame.index) == list(range(len(frame)))
    assert load(str(folder)).equals(frame)


def test_order_of_columns_and_rows(tmp_path):
    hyper = np.tile([0.2, 0.1], 6)
    columns = {"loss": np.arange(12.0), "hyper_rho": hyper, **rows_of(0), "a": np.arange(12)}
    with Store.create(tmp_path, STUDY, {}) as store:
        store.write_part("cpr", 0, columns)
        store.write_part("cpr", 1, dict(reversed((columns | rows_of(1)).items())))
    frame = load(tmp_path)
    expected = ["method", "seed", "step", "task", "hyper_rho", "loss", "accuracy", "a"]
    assert list(frame) == expected
    order = list(zip(frame.hyper_rho, frame.seed, frame.step, strict=True))
    assert order == sorted(order)
    assert len(frame) == 24


def test_a_column_that_a_method_lacks_is_nan(folder):
    with Store.open(folder) as store:
        extra = {"resets": np.arange(12), "note": np.array(["x"] * 12)}
        store.write_part("redo", 0, rows_of(0) | extra)
    frame = load(folder)
    redo = frame.method == "redo"
    assert frame.resets[redo].tolist() == list(range(12))
    assert frame.note[redo].tolist() == ["x"] * 12
    assert frame[["resets", "note"]][~redo].isna().all(axis=None)


def test_parts_after_the_newest_checkpoint_are_shown_once(folder):
    with Store.open(folder) as store:
        store.write_part("adam", 2, rows_of(2))
        assert load(folder).equals(table_of({"adam": 3, "cpr": 3}))
        store.restore("adam", state_after(0))
        assert load(folder).equals(table_of({"adam": 2, "cpr": 3}))
        train(store, "adam", 3)
    assert load(folder).equals(table_of({"adam": 3, "cpr": 3}))


def test_several_studies(tmp_path):
    a, b = make(tmp_path / "a"), make(tmp_path / "b", loss=np.ones(12))
    frame = load([b, str(a)])
    assert list(frame)[:2] == ["study", "method"]
    assert frame.study.unique().tolist() == [str(a), str(b)]
    assert frame.loss.isna().sum() == 12 == (frame.loss == 1).sum()
    assert load([a]).drop(columns="study").equals(load(a))


def test_small_floats_are_exact(tmp_path):
    values = np.linspace(0, 1, 12)
    make(tmp_path / "s", half=values.astype(np.float16), brain=jnp.asarray(values, jnp.bfloat16))
    frame = load(tmp_path / "s").sort_values(["seed", "step"])
    assert frame.half.dtype == frame.brain.dtype == np.float32
    np.testing.assert_array_equal(frame.half, values.astype(np.float16))
    np.testing.assert_array_equal(frame.brain, jnp.asarray(values, jnp.bfloat16))


def test_values_that_are_not_finite(tmp_path):
    values = np.array([np.nan, np.inf, -np.inf, -0.0] * 3)
    make(tmp_path / "s", loss=values)
    np.testing.assert_array_equal(load(tmp_path / "s").loss, values)


def test_a_part_without_rows(tmp_path):
    with Store.create(tmp_path, STUDY, {}) as store:
        store.write_part("cpr", 0, {k: v[:0] for k, v in rows_of(0).items()})
        assert load(tmp_path).empty
        store.write_part("cpr", 1, rows_of(1))
    assert len(load(tmp_path)) == 12


def test_no_metrics_yet(tmp_path):
    Store.create(tmp_path, STUDY, {}).close()
    with pytest.raises(StoreError, match="has no metrics yet"):
        load(tmp_path)


def test_wrong_folders(tmp_path, folder):
    with pytest.raises(StoreError, match="there is no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="at least one folder"):
        load([])
    with pytest.raises(ValueError, match="given twice"):
        load([folder, folder / ".." / folder.name])


def test_studies_that_do_not_fit_together(tmp_path):
    a, b = make(tmp_path / "a", x=np.ones(12)), make(tmp_path / "b", x=np.array(["x"] * 12))
    with pytest.raises(StoreError, match="load them one by one"):
        load([a, b])


def test_a_missing_part_is_told(folder):
    (folder / "metrics/cpr/part-000001.parquet").unlink()
    with pytest.raises(StoreError, match=r"cpr is not complete: part-000001.parquet missing"):
        load(folder)


@pytest.mark.parametrize("where", [0.1, 0.5, 0.99])
def test_a_damaged_part_is_told(folder, where):
    path = folder / "metrics/cpr/part-000001.parquet"
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: int(where * len(data))])
    with pytest.raises(StoreError, match=r"part-000001.parquet cannot be read .*from a copy"):
        load(folder)


def test_flipped_values_are_told(folder):
    """At every place in the pages of the file: an error, or the right rows."""
    path = folder / "metrics/cpr/part-000001.parquet"
    data, expected, told = path.read_bytes(), load(folder), 0
    footer = int.from_bytes(data[-8:-4], "little") + 8
    for i in range(4, len(data) - footer):
        path.write_bytes(data[:i] + bytes([data[i] ^ 8]) + data[i + 1 :])
        try:
            assert load(folder).equals(expected)
        except StoreError:
            told += 1
    assert told > 100


def test_parquet_files_stand_alone(folder):
    """Read as a folder, without `load`; drafts and other files of ours do not disturb."""
    (folder / "metrics/cpr/.part-000009.parquet.tmp").write_bytes(b"half")
    expected = table_of({"adam": 2, "cpr": 3})
    by = ["method", "seed", "step"]
    frames = [
        pd.read_parquet(folder / "metrics"),
        pq.read_table(folder / "metrics").to_pandas(),
        pyarrow.dataset.dataset(folder / "metrics").to_table().to_pandas(),
        pd.concat(map(pd.read_parquet, folder.glob("metrics/*/*.parquet"))),
    ]
    for frame in frames:
        assert frame.sort_values(by, ignore_index=True).equals(expected)


def test_all_parts_have_one_schema_and_its_version(folder):
    files = sorted(folder.glob("metrics/*/*.parquet"))
    schemas = [pq.read_schema(file) for file in files]
    assert len(files) == 5
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert {schema.metadata[b"continual_learning.schema"] for schema in schemas} == {b"1"}
