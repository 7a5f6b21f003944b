"""States on the disk: they come back bit for bit, or it is said why not."""

import json
import shutil
import zipfile
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.studies.store import checkpoint
from continual_learning.studies.store.arrays import checksum
from continual_learning.studies.store.store import Store, StoreError
from tests.studies.toy_study import check_consistent, names, rows_of, state_after, train


class Pair(NamedTuple):
    a: object
    b: object


def bits(leaf):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def check_equal(restored, state):
    assert jax.tree.structure(restored) == jax.tree.structure(state)
    for new, old in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
        if not hasattr(old, "dtype"):
            assert (type(new), new) == (type(old), old)
            continue
        assert (new.dtype, new.shape) == (old.dtype, old.shape)
        assert bits(new) == bits(old)


def states():
    keys = jax.random.split(jax.random.key(7), 3)
    normal = np.random.default_rng(0).normal(size=(3, 4, 5))
    params = {"Dense_0": {"kernel": jnp.asarray(normal, jnp.float32), "bias": jnp.ones((3, 5))}}
    yield "optimizer", Pair(params, jax.vmap(optax.adam(1e-3).init)(params))
    yield "keys", {"k": keys, "many": jax.vmap(lambda k: jax.random.split(k, (2, 2)))(keys)}
    yield "rbg", [jax.random.split(jax.random.key(1, impl="rbg"), 3)]
    for dtype in ("bfloat16", "float8_e4m3fn", "int4"):
        yield dtype, (jnp.asarray(normal, dtype),)
    for dtype in ("bool", "int8", "uint32", "int64", "float16", "float64", "complex64"):
        yield dtype, normal.astype(dtype)
    yield "numbers", {"x": normal, "i": 2**62, "f": 0.1, "b": True}
    yield "special", np.array([[np.nan, -0.0], [np.inf, 1e-320], [-np.inf, 1]])
    yield "empty", {"none": None, "no": np.zeros((3, 0, 2)), "nested": ({}, [normal])}
    yield "names", {"file": normal, "a.npy": normal + 1, "a": normal + 2, "ä/..": normal + 3}


CASES = dict(states())


@pytest.mark.parametrize("case", CASES)
def test_states_come_back_bit_for_bit(folder, case):
    state = CASES[case]
    with Store.open(folder) as store:
        store.write_part("cpr", 0, rows_of(0))
        store.save("cpr", 0, state)
    abstract = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype) if hasattr(x, "dtype") else x, state
    )
    for like in (state, abstract):
        restored = Store.read(folder).restore("cpr", like)
        assert restored is not None and restored[0] == 0
        check_equal(restored[1], state)


def test_a_restored_key_goes_on_like_the_saved_one(tmp_path):
    keys = jax.random.split(jax.random.key(3), 2)
    checkpoint.write(tmp_path, keys)
    again = checkpoint.read(tmp_path, keys)
    draw = jax.vmap(jax.random.normal)
    np.testing.assert_array_equal(draw(again), draw(keys))


def test_the_same_state_gives_the_same_bytes(tmp_path):
    for name in "ab":
        tmp_path.joinpath(name).mkdir()
        checkpoint.write(tmp_path / name, CASES["optimizer"])
    for file in names(tmp_path / "a"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_lane_is_read_by_numpy_alone(tmp_path):
    checkpoint.write(tmp_path, CASES["optimizer"])
    with np.load(tmp_path / "lane-0001.npz", allow_pickle=False) as lane:
        expected = CASES["optimizer"].a["Dense_0"]["kernel"][1]
        np.testing.assert_array_equal(lane["a/Dense_0/kernel"], expected)


def test_some_leaves_of_one_lane(folder):
    keys = jax.random.split(jax.random.key(7), 3)
    with Store.open(folder) as store:
        for chunk in range(2):
            store.write_part("cpr", chunk, rows_of(chunk))
            store.save("cpr", chunk, state_after(chunk) | {"keys": keys})
        # The other lanes need not even be there, and the lock does not matter.
        for lane in (0, 2):
            (folder / "checkpoints" / "cpr" / "000001" / f"lane-000{lane}.npz").unlink()
        like = {"keys": keys[0], "net": {"b": jax.ShapeDtypeStruct((40,), np.float32)}}
        found = Store.read(folder).restore("cpr", like, lane=1)
        assert found is not None and found[0] == 1
        expected = {"keys": keys[1], "net": {"b": state_after(1)["net"]["b"][1]}}
        check_equal(found[1], expected)
        with pytest.warns(UserWarning, match="000001 is damaged.*falls back"):
            found = Store.read(folder).restore("cpr", like, lane=0)
        assert found is not None and found[0] == 0
        with pytest.raises(StoreError, match=r"lacks the leaves \['no'\]"):
            Store.read(folder).restore("cpr", {"no": keys[0]}, lane=1)


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ({"a": np.zeros(2), "b": np.zeros(3)}, ValueError, "same number of lanes.*'b': 3"),
        ({"a": np.zeros(())}, ValueError, r"'a' must be \[lanes, …\], got a scalar"),
        ({"a": "text"}, TypeError, "'a' must be an array or a Python number, got str"),
        ({"a": np.array([{}, {}])}, TypeError, "'a' must be an array"),
        ({"a/b": np.zeros(2), "a": {"b": np.zeros(2)}}, ValueError, "Several.*path 'a/b'"),
        ({"a": 1}, ValueError, "holds no array"),
        ({"a": np.zeros(2), "b": 2**70}, ValueError, "does not fit into 64 bits"),
    ],
)
def test_states_are_checked(folder, state, error, message):
    with Store.open(folder) as store:
        store.write_part("cpr", 0, rows_of(0))
        with pytest.raises(error, match=message):
            store.save("cpr", 0, state)
        assert store.progress() == {"cpr": 0}
        assert not list((folder / "checkpoints" / "cpr").iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total": np.zeros(3, np.int32)}, r"leaf 'total' is int64 \[\], here int32 \[\]"),
        ({"total": np.zeros((3, 2), np.int64)}, r"'total' is int64 \[\], here int64 \[2\]"),
        ({"total": jax.random.split(jax.random.key(0), 3)}, r"here key<threefry2x32> \[\]"),
        ({"total": 1}, r"here Python int \[\]"),
        ({"chunk": 1.0}, r"'chunk' is Python int \[\], here Python float"),
        ({"more": np.zeros(3)}, r"lacks the leaves \['more'\] and has \[\] besides"),
        ({"net": np.zeros(3)}, r"lacks the leaves \['net'\] and has \['net/b', 'net/w'\]"),
        ({"total": np.zeros(2, np.int64), "net": {}}, r"and has \['net/b', 'net/w'\]"),
    ],
)
def test_a_checkpoint_of_another_program_is_told(folder, change, message):
    with Store.open(folder) as store:
        train(store, "cpr", 2)
        store.write_part("cpr", 2, rows_of(2))
        before = names(folder)
        with pytest.raises(StoreError, match=f"000001 is of another program: .*{message}"):
            store.restore("cpr", state_after(0) | change)
        assert names(folder) == before


def test_another_number_of_lanes_is_told(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 1)
        two = jax.tree.map(lambda x: x[:2] if hasattr(x, "dtype") else x, state_after(0))
        with pytest.raises(StoreError, match="has 3 lanes, this program 2"):
            store.restore("cpr", two)


def test_nothing_is_unpickled(tmp_path):
    checkpoint.write(tmp_path, np.zeros(2))
    with zipfile.ZipFile(tmp_path / "lane-0000.npz", "w") as file, file.open(".npy", "w") as member:
        np.lib.format.write_array(member, np.array(print, object), allow_pickle=True)
    sums = "".join(
        f"{checksum(tmp_path / name)}  {name}\n"
        for name in ("leaves.json", "lane-0000.npz", "lane-0001.npz")
    )
    (tmp_path / "SHA256SUMS").write_text(sums)
    with pytest.raises(checkpoint.Damaged, match="allow_pickle=False"):
        checkpoint.read(tmp_path, np.zeros(2))


# ---- damage ----


def truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def lose(path):
    path.unlink()


FILES = ("lane-0000.npz", "lane-0002.npz", "leaves.json", "SHA256SUMS")


@pytest.mark.parametrize("damage", [truncate, flip, empty, lose])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(folder, name, damage):
    with Store.open(folder) as store:
        train(store, "cpr", 4)
        damage(folder / "checkpoints/cpr/000003" / name)
        with pytest.warns(UserWarning, match="000003 is damaged: .*falls back to .* chunk 2"):
            assert check_restored(store, 2)
        assert "cpr: The checkpoint" in (folder / "log.txt").read_text()
        assert "is damaged" in (folder / "log.txt").read_text()
        assert store.progress() == {"cpr": 3}
        assert (folder / "checkpoints/cpr/000003.damaged").is_dir()
        train(store, "cpr", 4)
    assert check_consistent(folder) == 3


def check_restored(store, chunk):
    restored = store.restore("cpr", state_after(0))
    assert restored is not None
    check_equal(restored[1], state_after(chunk))
    return restored[0] == chunk


def test_any_flipped_byte_is_found(tmp_path):
    """Of every file, at every place."""
    state = {"x": np.arange(6, dtype=np.int16).reshape(2, 3)}
    checkpoint.write(tmp_path, state)
    for name in names(tmp_path):
        data = (tmp_path / name).read_bytes()
        for i in range(len(data)):
            flipped = data[:i] + bytes([data[i] ^ 4]) + data[i + 1 :]
            (tmp_path / name).write_bytes(flipped)
            with pytest.raises(checkpoint.Damaged):
                checkpoint.read(tmp_path, state)
        (tmp_path / name).write_bytes(data)
    check_equal(checkpoint.read(tmp_path, state), state)


def test_a_reader_falls_back_without_touching_anything(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 3)
    flip(folder / "checkpoints/cpr/000002/lane-0001.npz")
    before = names(folder)
    with pytest.warns(UserWarning, match="is damaged"):
        assert check_restored(Store.read(folder), 1)
    assert names(folder) == before


def test_no_good_checkpoint_is_an_error_and_nothing_is_removed(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 3)
        for chunk in ("000001", "000002"):
            flip(folder / "checkpoints/cpr" / chunk / "lane-0001.npz")
        before = names(folder)
        with pytest.raises(
            StoreError, match=r"no other checkpoint, .* Nothing was removed"
        ) as error:
            store.restore("cpr", state_after(0))
        assert "000001 is damaged: 000001/lane-0001.npz has changed" in str(error.value)
        assert "000002 is damaged: 000002/lane-0001.npz has changed" in str(error.value)
    assert names(folder) == before


def test_repeated_damage_keeps_one_damaged_copy(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 3)
        for _ in range(2):
            flip(folder / "checkpoints/cpr/000002/lane-0001.npz")
            with pytest.warns(UserWarning, match="is damaged"):
                assert check_restored(store, 1)
            train(store, "cpr", 3)
    assert check_consistent(folder) == 2


def test_a_list_of_other_leaves_is_damage_not_a_crash(tmp_path):
    checkpoint.write(tmp_path, np.zeros(2))
    for content in ("[]", '{"lanes": 2}', '{"lanes": 9, "leaves": {}}'):
        (tmp_path / "leaves.json").write_text(content)
        sums = (tmp_path / "SHA256SUMS").read_text().splitlines()
        sums[0] = f"{checksum(tmp_path / 'leaves.json')}  leaves.json"
        (tmp_path / "SHA256SUMS").write_text("\n".join(sums))
        with pytest.raises(checkpoint.Damaged):
            checkpoint.read(tmp_path, np.zeros(2))


# ---- parts and checkpoints ----


def test_nothing_saved_is_none(folder):
    with Store.open(folder) as store:
        assert store.restore("cpr", state_after(0)) is None
        store.write_part("cpr", 0, rows_of(0))
        store.write_part("cpr", 1, rows_of(1))
        assert store.restore("cpr", state_after(0)) is None
    assert not names(folder / "metrics")


def test_metrics_whose_checkpoints_are_gone_are_kept(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 3)
        shutil.rmtree(folder / "checkpoints")
        before = names(folder)
        with pytest.raises(StoreError, match="checkpoints are gone; there was one after chunk 1"):
            store.restore("cpr", state_after(0))
        assert names(folder) == before
        assert store.progress() == {"cpr": 3} and store.saved() == []
        shutil.rmtree(folder / "metrics" / "cpr")
        train(store, "cpr", 3)
    assert check_consistent(folder) == 2


def test_methods_do_not_touch_each_other(folder):
    with Store.open(folder) as store:
        train(store, "adam", 3)
        store.write_part("adam", 3, rows_of(3))
        train(store, "cpr", 1)
        before = names(folder / "metrics/adam")
        assert check_restored(store, 0)
        assert names(folder / "metrics/adam") == before
        assert store.restore("adam", state_after(0)) is not None
        assert names(folder / "metrics/adam") == before[:-1]


def test_leaves_are_listed(tmp_path):
    checkpoint.write(tmp_path, {"k": jax.random.split(jax.random.key(0), 2), "n": 1})
    assert json.loads((tmp_path / "leaves.json").read_text()) == {
        "lanes": 2,
        "leaves": {
            "k": {"dtype": "key<threefry2x32>", "shape": []},
            "n": {"dtype": "Python int", "shape": []},
        },
    }
