"""Two properties of every unit of a graph, checked with numbers.

The program is run equation by equation, so that the output of every contraction with a parameter
is known; none of this is shared with what traces units.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

CONSTANT, PARAMETER, OTHER = range(3)  # what a value is: made of constants, of parameters, …
# A parameter stays one through these.
LINEAR = {
    "mul", "div", "neg", "reshape", "transpose", "broadcast_in_dim", "squeeze", "rev", "slice",
    "concatenate", "split", "pad", "copy", "convert_element_type",
}  # fmt: skip
STATISTICS = {"reduce_sum", "reduce_max"}


class Evaluation:
    """Runs a jaxpr on numbers; afterwards `kernels` and `made` hold every contraction's.

    `fixed` replaces the results of reductions, in order: statistics that are held fixed.
    """

    def __init__(self, fixed=None):
        self.kernels, self.made, self.axes = [], [], []
        self.statistics, self.fixed = [], fixed

    def run(self, jaxpr, args):
        env = dict(zip(jaxpr.invars, args, strict=True))

        def read(atom):
            return (atom.val, CONSTANT) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            outs = self._apply(eqn, [read(atom) for atom in eqn.invars])
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _apply(self, eqn, ins):
        name, params = eqn.primitive.name, eqn.params
        if name == "scan":
            return self._scan(params, ins)
        inner = [v for v in params.values() if hasattr(getattr(v, "jaxpr", v), "eqns")]
        if inner and name not in ("while", "cond"):
            return self._closed(inner[0], ins)
        values, kinds = [v for v, _ in ins], {kind for _, kind in ins}
        kind = max(kinds, default=CONSTANT)
        kind = OTHER if kind == PARAMETER and name not in LINEAR else kind
        outs = eqn.primitive.bind(*values, **params)
        outs = list(outs) if eqn.primitive.multiple_results else [outs]
        if name in STATISTICS and kind == OTHER:
            if self.fixed is not None:
                outs = [self.fixed[len(self.statistics)]]
            self.statistics.append(outs[0])
        if name in ("dot_general", "conv_general_dilated"):
            sides = [kind == PARAMETER for _, kind in ins]
            if sum(sides) == 1:
                self.kernels.append(values[sides.index(True)])
                self.made.append(outs[0])
                self.axes.append(_unit_axes(name, params, ins, sides[0]))
        return [(out, kind) for out in outs]

    def _closed(self, program, ins):
        jaxpr = getattr(program, "jaxpr", program)
        consts = [(c, CONSTANT) for c in getattr(program, "consts", ())]
        env = [*consts, *ins]
        return self.run(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), env)

    def _scan(self, params, ins):
        a, b = params["num_consts"], params["num_consts"] + params["num_carry"]
        consts, carry, xs, results = ins[:a], ins[a:b], ins[b:], {}
        order = range(params["length"])
        for i in reversed(order) if params["reverse"] else order:
            outs = self._closed(params["jaxpr"], [*consts, *carry, *((x[i], k) for x, k in xs)])
            carry, results[i] = outs[: len(carry)], outs[len(carry) :]
        each = zip(*(results[i] for i in order), strict=True)
        return [*carry, *((jnp.stack([y for y, _ in ys]), ys[0][1]) for ys in each)]


def _unit_axes(name, params, ins, lhs_is_kernel):
    """Axes of the output along which the kernel's outputs lie."""
    if name == "conv_general_dilated":
        return (params["dimension_numbers"].out_spec[1],)
    (lhs_in, rhs_in), (lhs_copies, _) = params["dimension_numbers"]
    copies = len(lhs_copies)
    left, right = (
        x.ndim - len(used) - copies for (x, _), used in zip(ins, (lhs_in, rhs_in), strict=True)
    )
    own = range(copies, copies + left)
    if not lhs_is_kernel:
        own = range(copies + left, copies + left + right)
    return (*range(copies), *own)


def randomised(params, seed=0):
    """No parameter zero, none equal to another."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda w: rng.normal(size=w.shape).astype(w.dtype), params)


def _where(links, unit, shapes):
    """{parameter: mask} of the entries that belong to a unit."""
    masks = {}
    for link in links:
        shape = shapes[link.param]
        spread = [n if a in link.axes else 1 for a, n in enumerate(shape)]
        mask = np.broadcast_to((link.index == unit).reshape(spread), shape)
        masks[link.param] = mask | masks.get(link.param, False)
    return masks


def check_units(apply, graph, params, *inputs, units=2, statistics=False):
    """Both properties of the first `units` units of every layer.

    1. Without its outgoing entries a unit reaches no output, whatever its incoming entries are.
    2. Its incoming entries at one producer change no other unit there.

    With `statistics`, results of reductions are held fixed.
    """
    values = randomised(params)
    names = list(graph.shapes)
    base, other = (jax.tree.leaves(p) for p in (values, randomised(params, seed=1)))
    program = jax.make_jaxpr(apply)(values, *inputs)
    closed_over = [(x, OTHER) for x in jax.tree.leaves(inputs)]

    def run(leaves, fixed=None):
        seen = Evaluation(fixed)
        outs = seen._closed(program, [*((w, PARAMETER) for w in leaves), *closed_over])
        return seen, [out for out, _ in outs]

    seen, outputs = run(base)
    fixed = seen.statistics if statistics else None

    def changed(leaves, masks, by):
        return [
            np.where(masks[name], new, old) if name in masks else old
            for name, old, new in zip(names, leaves, by, strict=True)
        ]

    silenced, redrawn, moved, cases = [], [], [], []
    for layer in graph.layers:
        for unit in range(min(units, layer.size)):
            outgoing = _where(layer.outgoing, unit, graph.shapes)
            silenced.append(changed(base, outgoing, [np.zeros_like(w) for w in base]))
            incoming = _where(layer.incoming, unit, graph.shapes)
            redrawn.append(changed(silenced[-1], incoming, other))
            for link in layer.incoming:
                cases.append((layer, unit, link.param))
                moved.append(changed(base, _where([link], unit, graph.shapes), other))
    if not cases:
        return

    def numbers(leaves):
        again, outs = run(leaves, fixed)
        return outs, again.kernels, again.made

    stacked = [np.stack(each) for each in zip(*silenced, *redrawn, *moved, strict=True)]
    outs, kernels, made = jax.tree.map(np.asarray, jax.vmap(numbers)(stacked))
    half = len(silenced)
    for out, usual in zip(outs, outputs, strict=True):
        size = 1 + np.abs(usual).max()
        np.testing.assert_allclose(out[:half] / size, out[half : 2 * half] / size, atol=1e-5)
    columns, matters = {}, {}
    for i, (layer, unit, param) in enumerate(cases, 2 * half):
        # The one contraction that uses the entries, and which of its outputs they change.
        (at,) = [j for j, w in enumerate(kernels) if not np.array_equal(w[i], seen.kernels[j])]
        usual = np.asarray(seen.made[at])
        rest = tuple(a for a in range(usual.ndim) if a not in seen.axes[at])
        difference = np.abs(made[at][i] - usual).max(axis=rest, initial=0).reshape(-1)
        (column,) = np.flatnonzero(difference > 1e-6 * np.abs(usual).max())
        taken = columns.setdefault((layer.name, at), {})
        assert taken.setdefault(int(column), unit) == unit, f"{param}: two units of one output"
        matters.setdefault(layer.name, False)
        matters[layer.name] |= any(
            not np.array_equal(out[i], usual) for out, usual in zip(outs, outputs, strict=True)
        )
    assert all(matters[x.name] for x in graph.layers), "a layer that has no part in the output"
