"""The figures of the documentation are those that its program draws."""

import numpy as np
import pytest

from docs.figures import make


@pytest.fixture(scope="module")
def changes():
    """{method: [|change| of each kernel]} by one reset."""
    return {name: list(make.one_reset(method).values()) for name, method in make.METHODS.items()}


def moved(kernel):
    """Which units that a kernel makes were moved in at least one entry, from 1."""
    return (np.flatnonzero((kernel > 1e-6).any(axis=0)) + 1).tolist()


def test_what_the_page_says_of_each_method(changes):
    first = {name: kernels[0] for name, kernels in changes.items()}
    assert moved(first["redo"]) == [2, 6]  # the smallest activations
    assert moved(first["regrama"]) == [3, 7]  # the smallest gradients
    assert len(moved(first["cbp"])) == 1
    assert len(moved(first["shrink_perturb"])) == 8
    cpr = first["cpr"].mean(axis=0)
    assert cpr[[2, 6]].min() > 100 * cpr[[1, 5]].max()  # those with 1.5 and 2 of the mean
    assert changes["redo"][1][1, 0] > 0  # outgoing, and incoming of the next


def test_what_the_page_says_of_the_ants_program():
    """docs/physics.md, and the caption of its figure."""
    mass, contact = ([*each.values()] for each in make.ant_entries())
    arrays, known, _ = make.KINDS
    assert [mass.count(kind) for kind in (arrays, known)] == [75, 3]
    assert [contact.count(kind) for kind in (arrays, known)] == [15, 3]


def test_the_files_are_what_the_program_draws(tmp_path, changes, monkeypatch):
    drawn = {id(make.METHODS[name]): kernels for name, kernels in changes.items()}
    names = [f"kernel_{i}" for i in (1, 2, 3)]
    monkeypatch.setattr(
        make, "one_reset", lambda method: dict(zip(names, drawn[id(method)], strict=True))
    )
    make.main(tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in make.HERE.glob("*.svg")) and len(made) == 8
    for name in made:
        assert (tmp_path / name).read_bytes() == (make.HERE / name).read_bytes(), (
            f"Run `python docs/figures/make.py` and look at {name}."
        )
