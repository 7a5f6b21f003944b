"""What is in a folder belongs together: files have checksums, checkpoints say what they are of."""

import contextlib
import json
import shutil

import pytest

from continual_learning import cli
from continual_learning.jobs import tree
from continual_learning.jobs.job import divide
from continual_learning.studies import registry
from continual_learning.studies.store import arrays, checkpoint
from continual_learning.studies.store.store import Store, StoreError
from continual_learning.studies.study import Study
from continual_learning.sweeps import sweep as sweeps
from continual_learning.sweeps.grid import Grid
from tests.studies.edited import edit, without_sums
from tests.studies.toy_study import STUDY, check_consistent, state_after, train

SPEC = registry.get("permuted_digits").at_scale("smoke")


def study(path):
    Store.create(path, STUDY, {"jax": "0.0", "commit": "abc"}).close()
    return lambda: (Store.read(path).study, Store.read(path).environment)


def jobs(path):
    tree.create(path, divide(SPEC, ["adam"], [0, 1], 1), {"name": "local", "options": {}}, 3)
    return lambda: tree.read(path)


def sweep(path):
    grid = Grid({"max_reset": (0.1, 0.2)})
    sweeps.write(path, sweeps.Sweep(SPEC, SPEC, "cpr", grid, [1000]), sweeps.Setup(lanes=4))
    return lambda: (sweeps.read(path), sweeps.read_setup(path))


KINDS = [
    (study, "study.toml", 1),
    (study, "environment.json", 1),
    (jobs, "jobs.toml", 97),
    (sweep, "sweep.toml", 97),
]


@pytest.mark.parametrize(("make", "name", "stride"), KINDS)
def test_a_flipped_bit_is_damage_and_not_another_study(tmp_path, make, name, stride):
    """Unless it is in the checksum's own line, and the content is as it was."""
    folder = tmp_path / "x"
    read = make(folder)
    written, data = read(), (folder / name).read_bytes()
    after = data.index(b"\n") + 1 if name.endswith(".toml") else 0
    for place in range(0, len(data), stride):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 7
        (folder / name).write_bytes(flipped)
        with contextlib.suppress(StoreError):
            assert read() == written and place < after
    for size in (0, 1, len(data) // 2, len(data) - 1):
        (folder / name).write_bytes(data[:size])
        with pytest.raises(StoreError):
            read()
    (folder / name).write_bytes(data)
    assert read() == written


@pytest.mark.parametrize(("make", "name", "stride"), KINDS)
def test_an_edit_is_said_to_be_one_and_what_it_needs(tmp_path, make, name, stride):
    folder = tmp_path / "x"
    read = make(folder)
    written = read()
    path = folder / name
    path.write_text(path.read_text() + "\n")
    told = rf"{name} is not what was written.*If it was edited: .*begin anew"
    with pytest.raises(StoreError, match=told):
        read()
    [toml] = folder.glob("*.toml")
    toml.write_text(without_sums(toml.read_text()))  # as the error says
    assert read() == written


def bound(folder, chunk, method="cpr"):
    leaves = folder / "checkpoints" / method / f"{chunk:06d}" / "leaves.json"
    return json.loads(leaves.read_text())["of"]


def test_a_checkpoint_says_what_it_is_of(folder):
    with Store.open(folder) as store:
        train(store, "cpr", 2)
    rest = {name: value for name, value in STUDY.items() if name != "methods"}
    assert bound(folder, 1) == {"method": "cpr", "chunk": 1, "study": rest}


def test_how_long_a_study_runs_shapes_no_state():
    def of(**changes):
        study = Study(SPEC.override(**changes), ["cpr"], [0, 1])
        return checkpoint.bound(study.to_dict(), "cpr", 3)

    assert of() == of(tasks=7) == of(seeds=9) == of(**{"adam.learning_rate": 0.5})
    for change in ({"hidden": (8,)}, {"batch_size": 2}, {"cpr.max_reset": 0.5}):
        assert of() != of(**change)
    other = Study(SPEC, ["cpr"], [0, 2])
    assert of() != checkpoint.bound(other.to_dict(), "cpr", 3)


def checkpoints(folder):
    return folder / "checkpoints" / "cpr"


def other_method(folder):
    shutil.rmtree(checkpoints(folder) / "000002")
    shutil.copytree(folder / "checkpoints" / "adam" / "000002", checkpoints(folder) / "000002")
    return "method: 'adam' in the checkpoint, 'cpr' here"


def other_chunk(folder):
    shutil.rmtree(checkpoints(folder) / "000002")
    shutil.copytree(checkpoints(folder) / "000001", checkpoints(folder) / "000002")
    return "chunk: 1 in the checkpoint, 2 here"


def other_settings(folder):
    edit(folder / "study.toml", "lr = 0.001", "lr = 0.01")
    return r"study\.lr: 0\.001 in the checkpoint, 0\.01 here"


def other_seeds(folder):
    edit(folder / "study.toml", "[study]\n", "[study]\nseeds = [4, 5]\n")
    return r"study\.seeds: '\(absent\)' in the checkpoint, \[4, 5\] here"


@pytest.mark.parametrize("change", [other_method, other_chunk, other_settings, other_seeds])
def test_a_checkpoint_of_something_else_is_refused_with_both_named(folder, change):
    with Store.open(folder) as store:
        for method in ("adam", "cpr"):
            train(store, method, 3)
    told = change(folder)
    for opened in (Store.open, Store.read):
        with opened(folder) as store, pytest.raises(StoreError, match=f"something else:\n  {told}"):
            store.restore("cpr", state_after(0))
    with pytest.raises(StoreError, match=told):
        Store.read(folder).restore("cpr", {"total": state_after(0)["total"][0]}, lane=1)
    assert (checkpoints(folder) / "000002").exists()


def test_what_an_older_version_wrote_is_gone_on_with(folder):
    """Without checksums, and without a word of what a checkpoint is of."""
    with Store.open(folder) as store:
        train(store, "cpr", 3)
    for leaves in folder.glob("checkpoints/*/*/leaves.json"):
        content = json.loads(leaves.read_text())
        del content["of"]
        leaves.write_text(json.dumps(content, indent=1))
        sums = leaves.with_name("SHA256SUMS")
        lines = sums.read_text().splitlines()
        lines = [line for line in lines if not line.endswith("  leaves.json")]
        sums.write_text("\n".join([f"{arrays.checksum(leaves)}  leaves.json", *lines, ""]))
    (folder / "study.toml").write_text(without_sums((folder / "study.toml").read_text()))
    with Store.open(folder) as store:
        train(store, "cpr", 5)
    assert check_consistent(folder) == 4
    assert bound(folder, 4)["chunk"] == 4


def test_the_command_says_so(tmp_path, capsys):
    out = tmp_path / "study"
    start = ["run", "permuted_digits", "--scale", "smoke", "--methods", "adam", "--seeds", "1"]
    start += ["--hidden", "8", "--quiet", "--until-task", "1"]
    assert cli.main([*start, "--out", str(out)]) == 75
    file = out / "study.toml"
    file.write_text(file.read_text().replace("batch_size = 8", "batch_size = 4"))
    for words in (["status"], ["resume"], ["report"]):
        assert cli.main([*words, str(out)]) == 2
        assert "is not what was written: its checksum differs" in capsys.readouterr().err
    edit(file, "batch_size = 4", "batch_size = 2")
    assert cli.main(["resume", str(out), "--quiet"]) == 2
    told = "study.experiment.agent.batch_size: 8 in the checkpoint, 2 here"
    assert told in capsys.readouterr().err
