"""Draws the figures of docs/methods_explained.md and docs/physics.md by the library itself.

    python docs/figures/make.py [FOLDER]

What one reset does is shown on a network of 6 inputs, two layers of 8 units and 3 outputs, whose
units have gradients and activations of the sizes below. The inner optimizer does nothing, so that
all that changes is the reset's.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import optax

from continual_learning.envs.robots import Ant
from continual_learning.optim import (
    CBP,
    CPR,
    ReDo,
    ReGraMa,
    ResetMethod,
    ShrinkAndPerturb,
    attach_reset_method,
)
from continual_learning.optim.shapes import phi
from continual_learning.paper import figures
from continual_learning.paper.figures import theme
from continual_learning.physics import unroll
from continual_learning.physics.scalars import Scalar

HERE = Path(__file__).parent
SIZES = (6, 8, 8, 3)
# Of the units of both layers, relative to their layer's mean; activations are small elsewhere.
GRADIENTS = ([0.8, 1.5, 0.1, 1.2, 0.95, 2.0, 0.4, 1.05], [1.2, 0.4, 1.05, 2.0, 0.8, 0.95, 1.5, 0.1])
ACTIVATIONS = tuple(each[::-1] for each in GRADIENTS)
METHODS: dict[str, ResetMethod] = {
    "cpr": CPR(),
    "cbp": CBP(replacement_rate=1 / 3000, maturity=0),
    "redo": ReDo(threshold=0.5, every=1000),
    "regrama": ReGraMa(threshold=0.5, every=1000),
    "shrink_perturb": ShrinkAndPerturb(shrink=1e-3, perturb=1e-3, every=1),
}
SHARPNESS = {1.0: "#56B4E9", 4.0: "#009E73", 16.0: "#0072B2", np.inf: "#222222"}
CELL = 13
OBSERVED = 400
"""Calls of `update` before the reset that is shown: moving averages have come to rest."""


def sharpness() -> Any:
    """R = ρ·φ(u) of CPR over u, for several κ."""
    utility = np.round(np.linspace(0, 2.5, 251), 6)
    rows, cpr = [], CPR()
    for kappa in SHARPNESS:
        share = cpr.max_reset * phi(cpr.shape, jnp.asarray(utility), kappa, cpr.center)
        rows += theme.records(
            kappa=[_kappa(kappa)] * len(utility), utility=utility, r=np.asarray(share)
        )
    colors = {_kappa(kappa): color for kappa, color in SHARPNESS.items()}
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line()
        .encode(
            x=alt.X(
                "utility:Q",
                title="utility u of a unit, relative to the mean of its layer",
                axis=alt.Axis(grid=False, tickCount=6),
            ),
            y=alt.Y("r:Q", title="share r of the unit that is reset"),
            color=theme.scale(colors, "kappa"),
        )
        .properties(width=theme.WIDTH - theme.AXIS, height=theme.HEIGHT)
    )
    return theme.finish(chart, [f"Shape {cpr.shape}, ρ = {cpr.max_reset:g}, center 1."])


def _kappa(value: float) -> str:
    return "κ = ∞" if np.isinf(value) else f"κ = {value:g}"


def one_reset(method: ResetMethod) -> dict[str, np.ndarray]:
    """{kernel: |change| [in, out]} by one reset."""
    init = jax.nn.initializers.lecun_normal()
    shapes = itertools.pairwise(SIZES)
    drawn = [init(jax.random.key(i), shape) for i, shape in enumerate(shapes)]
    # Rounded, for their bits seed what a reset draws, and compilers differ in the last one.
    params = {f"kernel_{i + 1}": jnp.asarray(np.round(x, 4)) for i, x in enumerate(drawn)}
    sizes = (*GRADIENTS, [1.0] * SIZES[-1])
    grads = {
        name: jnp.tile(jnp.array([size]), (params[name].shape[0], 1))
        for name, size in zip(params, sizes, strict=True)
    }
    features = {f"kernel_{i + 1}": jnp.array([size]) for i, size in enumerate(ACTIVATIONS)}
    tx = attach_reset_method(tx=optax.set_to_zero(), reset_method=method, histogram=False)

    @jax.jit
    def last_of(state: Any) -> Any:
        def observe(state: Any, nothing: None) -> tuple[Any, None]:
            _, state = tx.update(grads, state, params, features=features, reset=False)
            return state, nothing

        state, _ = jax.lax.scan(observe, state, length=OBSERVED)
        return tx.update(grads, state, params, features=features, reset=True)

    updates, _ = last_of(tx.init(params))
    return {name: np.abs(np.asarray(each)) for name, each in updates.items()}


def changes(name: str) -> Any:
    """Return a map of every kernel: how far each entry was moved by one reset."""
    kernels = one_reset(METHODS[name])
    most = round(float(max(kernel.max() for kernel in kernels.values())), 4)
    panels = []
    for i, kernel in enumerate(kernels.values()):
        rows, columns = np.indices(kernel.shape)
        data = theme.records(
            row=rows.ravel() + 1.0, column=columns.ravel() + 1.0, change=np.round(kernel.ravel(), 4)
        )
        panels.append(
            alt.Chart(alt.InlineData(values=data))
            .mark_rect(stroke="#dddddd", strokeWidth=0.4)
            .encode(
                x=alt.X("column:O", title=_side(i + 1), axis=_BARE),
                y=alt.Y("row:O", title=_side(i), axis=_BARE),
                color=alt.Color(
                    "change:Q",
                    scale=alt.Scale(
                        domain=[0, most], range=["#ffffff", "#0072B2"], interpolate="rgb"
                    ),
                    legend=alt.Legend(
                        title="|change| of an entry", format=".2~g", tickCount=3, gradientLength=80
                    ),
                ),
            )
            .properties(width=CELL * kernel.shape[1], height=CELL * kernel.shape[0])
        )
    return theme.finish(alt.hconcat(*panels, spacing=22))


def ant_entries() -> tuple[dict[tuple[int, int], str], dict[tuple[int, int], str]]:
    """Return what an ant's program computes: entries of its mass matrix and of a foot's contact.

    An entry is an array over environments or a number that the trace knows; others do not exist.
    """
    engine = unroll(Ant("unrolled").mujoco_model)
    size = engine.model
    found: list[dict[tuple[int, int], str]] = []

    def kind(number: Scalar) -> str:
        known = isinstance(number.value, float)
        return KINDS[2 if known and not number.value else known]

    def trace(qpos: jax.Array, qvel: jax.Array, control: jax.Array) -> None:
        on_the_way = engine.dynamics(engine.state(qpos, qvel), control)
        found.append({at: kind(x) for at, x in on_the_way.mass_matrix.items()})
        rows = on_the_way.constraints.contacts[0].rows
        found.append({(i, j): kind(x) for i, row in enumerate(rows) for j, x in row.items()})

    shapes = ((n, 1) for n in (size.positions, size.velocities, len(size.motors)))
    jax.eval_shape(trace, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))
    return found[0], found[1]


KINDS = ("an array [environments]", "a number known at trace time", "zero: not in the program")


def sparsity() -> Any:
    """Return the mass matrix of an ant and the Jacobian of a foot, by kind of entry."""
    panels, velocities = [], 14
    titles = ("mass matrix: its lower triangle", "contact of a foot: normal, two tangents")
    for title, entries, rows in zip(titles, ant_entries(), (velocities, 3), strict=True):
        triangle = rows == velocities
        cells = [
            {"row": i + 1, "column": j + 1, "kind": entries.get((i, j), KINDS[2])}
            for i in range(rows)
            for j in range(i + 1 if triangle else velocities)
        ]
        panels.append(
            alt.Chart(alt.InlineData(values=cells), title=alt.TitleParams(title, fontSize=12))
            .mark_rect(stroke="#dddddd", strokeWidth=0.4)
            .encode(
                x=alt.X("column:O", title="velocity", axis=_BARE),
                y=alt.Y("row:O", title="velocity" if triangle else "row", axis=_BARE),
                color=alt.Color(
                    "kind:N",
                    scale=alt.Scale(domain=KINDS, range=["#0072B2", "#E69F00", "#ffffff"]),
                    legend=alt.Legend(title="an entry is", symbolStrokeColor="#dddddd"),
                ),
            )
            .properties(width=CELL * velocities, height=CELL * rows)
        )
    return theme.finish(alt.hconcat(*panels, spacing=22))


_COLORS = ["#ffffff", "#0072B2"]
_BARE = alt.Axis(ticks=False, domain=False, grid=False, labelAngle=0)


def _side(i: int) -> str:
    return ["inputs", "units of layer 1", "units of layer 2", "outputs"][i]


def main(folder: Path = HERE) -> None:
    """Write all figures."""
    figures.save(figures.make("util_comp"), folder / "cpr_shapes.svg")
    figures.save(sharpness(), folder / "cpr_sharpness.svg")
    figures.save(sparsity(), folder / "physics_sparsity.svg")
    for name in METHODS:
        figures.save(changes(name), folder / f"{name}_reset.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
