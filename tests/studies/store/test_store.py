"""The folder of a study: what is in it, what may be written when, and what its errors say."""

import json
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from continual_learning.analysis import load
from continual_learning.studies.store.store import Store, StoreError
from tests.studies.edited import edit
from tests.studies.toy_study import (
    ENVIRONMENT,
    STUDY,
    check_consistent,
    names,
    rows_of,
    state_after,
    train,
)

# ---- a study on the disk ----


def test_a_study_is_read_back(tmp_path):
    path = tmp_path / "a" / "b"
    with Store.create(path, STUDY, ENVIRONMENT) as store:
        assert (store.study, store.environment) == (STUDY, ENVIRONMENT)
    with Store.open(path, STUDY) as store:
        assert (store.study, store.environment) == (STUDY, ENVIRONMENT)
    assert Store.read(path).study == STUDY
    with pytest.raises(StoreError, match=f"it has no study.toml. Studies in it: {path}."):
        Store.read(path.parent)
    assert tomllib.loads((path / "study.toml").read_text()) == {"schema": 1, "study": STUDY}
    assert json.loads((path / "environment.json").read_text()) == ENVIRONMENT


def test_files_of_a_study(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 4)
        store.log("done")
    lanes = [f"lane-{i:04d}.npz" for i in range(3)]
    files = ["SHA256SUMS", *lanes, "leaves.json"]
    assert names(folder) == [
        *(f"checkpoints/cpr/{chunk:06d}/{name}" for chunk in (2, 3) for name in files),
        "environment.json",
        "lock",
        "log.txt",
        *(f"metrics/cpr/part-{chunk:06d}.parquet" for chunk in range(4)),
        "study.toml",
    ]


def test_numbers_and_tuples_of_a_study_become_plain(tmp_path):
    study = {"lr": np.float64(0.5), "sizes": (1, 2), "empty": {}}
    with Store.create(tmp_path / "s", study, {}) as store:
        assert store.study == {"lr": 0.5, "sizes": [1, 2], "empty": {}}
    Store.open(tmp_path / "s", study).close()


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({"a": {"b": None}}, r"study\.a\.b must be .* got None .*Leave out"),
        ({"a": [1, object]}, r"study\.a\[1\] must be"),
        ({1: 2}, "key 1 is not a string"),
    ],
)
def test_a_study_is_plain_data(tmp_path, study, message):
    with pytest.raises(TypeError, match=message):
        Store.create(tmp_path / "s", study, {})
    assert not list(tmp_path.iterdir())


def test_an_existing_study_is_not_replaced(folder):
    with pytest.raises(StoreError, match=r"holds a study already. Resume it, or choose another"):
        Store.create(folder, {"other": 1}, {})
    assert Store.read(folder).study == STUDY


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"not empty \(thesis.tex\)"):
        Store.create(tmp_path, STUDY, {})
    for opened in (Store.open, Store.read):
        with pytest.raises(StoreError, match=r"not the folder of a study: it has no study.toml"):
            opened(tmp_path)
        with pytest.raises(StoreError, match="there is no such folder"):
            opened(tmp_path / "nowhere")
    assert names(tmp_path) == ["thesis.tex"]


def test_a_creation_that_was_killed_can_be_repeated(tmp_path):
    for name in ("lock", "environment.json", ".study.toml.tmp"):
        (tmp_path / name).write_text("{")
    Store.create(tmp_path, STUDY, {}).close()
    assert names(tmp_path) == ["environment.json", "lock", "study.toml"]


def test_another_study_is_told_by_its_fields(folder):
    other = {"experiment": "toy", "methods": ["adam"], "lr": 1e-3, "ppo": {"epochs": 8}, "x": True}
    with pytest.raises(StoreError) as error:
        Store.open(folder, other)
    assert str(error.value).splitlines()[1:-1] == [
        "  methods: ['adam', 'cpr'] in the folder, ['adam'] asked",
        "  ppo.epochs: 4 in the folder, 8 asked",
        "  x: '(absent)' in the folder, True asked",
    ]


def test_a_newer_schema_is_told(folder):
    edit(folder / "study.toml", "schema = 1", "schema = 2")
    for opened in (Store.open, Store.read, load):
        with pytest.raises(StoreError, match=r"schema 2, .*newer version.* up to 1. Upgrade"):
            opened(folder)


@pytest.mark.parametrize("text", ["schema = ", "a = 1", "\x00"])
def test_a_damaged_study_is_told(folder, text):
    (folder / "study.toml").write_text(text)
    with pytest.raises(StoreError, match=r"study.toml is (damaged|not the file of a study)"):
        Store.open(folder)


def test_log(folder):
    with Store.open(folder) as store:
        store.log("one")
        store.log("two\nlines")
    lines = (folder / "log.txt").read_text().splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 ", "", x) for x in lines] == [
        "one",
        "two lines",
    ]


# ---- what may be written ----


def test_progress_counts_checkpoints(folder):
    with Store.open(folder) as store:
        assert store.progress() == {}
        train(store, "cpr", 3)
        store.write_part("adam", 0, rows_of(0))
        store.write_part("cpr", 3, rows_of(3))
        assert store.progress() == Store.read(folder).progress() == {"adam": 0, "cpr": 3}


def test_complete_chunks_are_not_overwritten(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 3)
        for write, what in ((store.write_part, rows_of(2)), (store.save, state_after(2))):
            with pytest.raises(StoreError, match=r"complete.*go on with chunk 3"):
                write("cpr", 2, what)


def test_parts_come_in_order_and_before_their_checkpoint(folder):
    with Store.open(folder) as store:
        with pytest.raises(StoreError, match="write its part first"):
            store.save("cpr", 0, state_after(0))
        with pytest.raises(StoreError, match=r"part-000000.parquet is not there"):
            store.write_part("cpr", 1, rows_of(1))
        with pytest.raises(ValueError, match="got -1"):
            store.write_part("cpr", -1, rows_of(0))


def test_several_chunks_may_share_a_checkpoint(folder):
    with Store.open(folder) as store:
        for chunk in range(3):
            store.write_part("cpr", chunk, rows_of(chunk))
        store.save("cpr", 2, state_after(2))
        store.write_part("cpr", 3, rows_of(3))
    assert check_consistent(folder) == 2


@pytest.mark.parametrize("name", ["", "..", "a/b", ".a", "-a", "a b"])
def test_names_of_methods(folder, name):
    with Store.open(folder) as store:
        for call in (
            lambda: store.write_part(name, 0, rows_of(0)),
            lambda: store.restore(name, state_after(0)),
        ):
            with pytest.raises(ValueError, match="name of a method becomes a folder"):
                call()


def test_a_reader_and_a_closed_store_write_nothing(folder):
    closed = Store.open(folder)
    closed.close()
    closed.close()
    for store, state in ((Store.read(folder), "opened for reading"), (closed, "closed")):
        for call in (
            lambda s=store: s.write_part("cpr", 0, rows_of(0)),
            lambda s=store: s.save("cpr", 0, state_after(0)),
            lambda s=store: s.log("x"),
        ):
            with pytest.raises(StoreError, match=f"is {state}: use Store.open"):
                call()


def test_a_column_that_is_measured_since_is_left_out_of_a_study_without_it(folder):
    with Store.open(folder) as store:
        store.write_part("cpr", 0, rows_of(0))
        store.write_part("cpr", 1, rows_of(1) | {"loss": np.zeros(12)})
    assert "loss" not in load(folder) and len(load(folder)) == 24


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"accuracy": np.zeros(3)}, ValueError, "same length.*'accuracy': 3"),
        ({"accuracy": np.zeros((12, 1))}, ValueError, r"must be \[rows\], got shape \[12, 1\]"),
        ({"accuracy": np.zeros(12, complex)}, TypeError, "numbers or strings, got complex128"),
        ({"accuracy": np.array([object()] * 12)}, TypeError, "numbers or strings, got object"),
        ({"seed": np.zeros(12)}, TypeError, "'seed' must hold whole numbers, got double"),
        ({"method": np.zeros(12)}, ValueError, "'method' is filled in by itself"),
        ({"task": None}, ValueError, r"needs the columns .*\['task'\] are missing"),
        ({"accuracy": None}, ValueError, r"same columns.*\['accuracy'\] are missing"),
        ({"accuracy": np.zeros(12, np.float32)}, TypeError, "'accuracy' is float, but double"),
    ],
)
def test_columns_are_checked(folder, change, error, message):
    columns = {k: v for k, v in (rows_of(1) | change).items() if v is not None}
    with Store.open(folder) as store:
        store.write_part("cpr", 0, rows_of(0))
        with pytest.raises(error, match=message):
            store.write_part("cpr", 1, columns)
    assert names(folder / "metrics") == ["cpr/part-000000.parquet"]


def test_a_column_has_one_type_in_all_methods(folder):
    with Store.open(folder) as store:
        store.write_part("cpr", 0, rows_of(0))
        with pytest.raises(TypeError, match="'accuracy' is int64, but double"):
            store.write_part("adam", 0, rows_of(0) | {"accuracy": np.zeros(12, int)})


def test_the_missing_extra_is_named():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "try: import continual_learning.{}\n"
        "except ImportError as error: print(error)\n"
    )
    for module in ("studies.store.store", "analysis"):
        run = [sys.executable, "-c", code.format(module)]
        output = subprocess.run(run, check=True, capture_output=True, text=True).stdout
        assert output == "pyarrow not installed. Run: pip install 'plasticax[studies]'\n"


def test_importing_is_light():
    code = (
        "import sys, continual_learning.studies.store.store, continual_learning.analysis;"
        "assert not {'pandas', 'pyarrow', 'flax'} & set(sys.modules);"
        "from jax._src import xla_bridge; assert not xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
