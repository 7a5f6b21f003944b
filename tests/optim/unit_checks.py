"""Two properties of every unit of a graph, checked with numbers.

The program is run equation by equation, so that the output of every contraction with a parameter
is known; none of this is shared with what traces units.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from tests.optim.rollouts import jit

# With every value goes the set of parameters that it is made of; OTHER for what is no multiple.
CONSTANT, OTHER = frozenset(), None
LINEAR = {
    "mul", "div", "neg", "reshape", "transpose", "broadcast_in_dim", "squeeze", "rev", "slice",
    "concatenate", "split", "pad", "copy", "convert_element_type",
}  # fmt: skip
STATISTICS = {"reduce_sum", "reduce_max"}


class Evaluation:
    """Runs a jaxpr on numbers.

    Afterwards there are of every contraction its kernel, which parameters that is made of, its
    output (`made`) and the axes of the output along which the kernel's outputs lie.

    `fixed` replaces the results of reductions, in order: statistics that are held fixed.
    """

    def __init__(self, fixed=None):
        self.kernels, self.params, self.made, self.axes = [], [], [], []
        self.statistics, self.fixed = [], fixed
        self.again = False  # whether this is a later iteration of a loop with the same kernels

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
            return self._scan(eqn, ins)
        inner = [v for v in params.values() if hasattr(getattr(v, "jaxpr", v), "eqns")]
        if inner and name not in ("while", "cond"):
            return self.call(inner[0], ins)
        values, kinds = [v for v, _ in ins], [kind for _, kind in ins]
        kind = OTHER if OTHER in kinds else frozenset().union(*kinds)
        kind = OTHER if kind and name not in LINEAR else kind
        outs = eqn.primitive.bind(*values, **params)
        outs = list(outs) if eqn.primitive.multiple_results else [outs]
        if name in STATISTICS and kind is OTHER:
            if self.fixed is not None:
                outs = [self.fixed[len(self.statistics)]]
            self.statistics.append(outs[0])
        if name in ("dot_general", "conv_general_dilated") and not self.again:
            sides = [bool(kind) for kind in kinds]
            if sum(sides) == 1:
                self.kernels.append(values[sides.index(True)])
                self.params.append(kinds[sides.index(True)])
                self.made.append(outs[0])
                self.axes.append(_unit_axes(name, params, ins, sides[0]))
        return [(out, kind) for out in outs]

    def call(self, program, ins):
        jaxpr = getattr(program, "jaxpr", program)
        consts = [(c, CONSTANT) for c in getattr(program, "consts", ())]
        env = [*consts, *ins]
        return self.run(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), env)

    def _scan(self, eqn, ins):
        params, body = eqn.params, eqn.params["jaxpr"].jaxpr
        pairs = zip(eqn.invars, body.invars, strict=True)
        b = sum(outer.aval.shape == inner.aval.shape for outer, inner in pairs)
        pairs = zip(eqn.outvars, body.outvars, strict=True)
        a = b - sum(outer.aval.shape == inner.aval.shape for outer, inner in pairs)
        consts, carry, xs, results = ins[:a], ins[a:b], ins[b:], {}
        stacked, again = any(kind for _, kind in xs), self.again
        if not stacked:
            carry = [_started(x, kind) for x, kind in carry]
        order = range(params["length"])
        for n, i in enumerate(reversed(order) if params["reverse"] else order):
            self.again = again or (n > 0 and not stacked)
            outs = self.call(params["jaxpr"], [*consts, *carry, *((x[i], k) for x, k in xs)])
            carry, results[i] = outs[: len(carry)], outs[len(carry) :]
        self.again = again
        each = zip(*(results[i] for i in order), strict=True)
        return [*carry, *((jnp.stack([y for y, _ in ys]), ys[0][1]) for ys in each)]


def _started(carry, kind):
    """A carry that starts anywhere: from zero, a recurrent kernel would do nothing at first."""
    if kind != CONSTANT or carry.dtype != jnp.float32:
        return carry, kind
    start = np.random.default_rng(0).normal(size=carry.shape).astype(carry.dtype)
    return carry + start, kind


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


def rows(graph):
    """(name, size, incoming, bias and norm, outgoing) of every layer, parameters as sets."""

    def names(links):
        return {link.param for link in links}

    return [
        (x.name, x.size, names(x.incoming), names(x.bias + x.scale), names(x.outgoing))
        for x in graph.layers
    ]


def assert_complete(graph):
    """Every parameter has a unit's entries, is listed with a reason, or is the output layer's."""
    linked = {link.param for layer in graph.layers for link in layer.links()}
    assert linked | dict(graph.untraced).keys() | {*graph.output} == graph.shapes.keys()


def linen(module, *shape):
    """A Flax module's function, its parameters, and two inputs."""
    x = jax.random.normal(jax.random.key(1), (2, *shape))
    params = module.init(jax.random.key(0), x)
    return module.apply, params, x


def randomized(params, seed=0):
    """No parameter zero, none equal to another; wide layers as large as narrow ones."""
    rng = np.random.default_rng(seed)

    def draw(w):
        wide = max(w.shape) if w.ndim > 1 else 1
        return (rng.normal(size=w.shape) * 2 / np.sqrt(3 + wide)).astype(w.dtype)

    return jax.tree.map(draw, params)


def _where(links, unit, shapes):
    """{parameter: mask} of the entries that belong to a unit."""
    masks = {}
    for link in links:
        shape = shapes[link.param]
        spread = [n if a in link.axes else 1 for a, n in enumerate(shape)]
        mask = np.broadcast_to((link.index == unit).reshape(spread), shape)
        masks[link.param] = mask | masks.get(link.param, False)
    return masks


def _changed(names, leaves, masks, by):
    return [
        np.where(masks[name], new, old) if name in masks else old
        for name, old, new in zip(names, leaves, by, strict=True)
    ]


def check_units(apply, graph, params, *inputs, units=2, statistics=False, matter=True):
    """Both properties of the first `units` units of every layer.

    1. Without its outgoing entries a unit reaches no output, whatever its incoming entries are.
    2. Its incoming entries at one producer change no other unit there. Of a kernel that a loop uses
       again and again this is its first use.

    With `statistics`, results of reductions are held fixed. With `matter`, some unit of every layer
    must change the output, so that neither property holds for want of numbers.
    """
    if not graph.layers:
        return
    names, shapes = list(graph.shapes), graph.shapes
    base, other = (jax.tree.leaves(randomized(params, seed)) for seed in (0, 1))
    program = jax.make_jaxpr(apply)(params, *inputs)

    def run(leaves, fixed=None):
        seen = Evaluation(fixed)
        own = [(w, frozenset([name])) for name, w in zip(names, leaves, strict=True)]
        outs = seen.call(program, [*own, *((x, OTHER) for x in jax.tree.leaves(inputs))])
        return seen, [out for out, _ in outs]

    def numbers(base, leaves):
        seen, outs = run(leaves, run(base)[0].statistics if statistics else None)
        return outs, seen.kernels, seen.made

    plan = _plan(run, names, base)
    silenced, redrawn, moved, cases = [], [], [], []
    for layer in graph.layers:
        for unit in range(min(units, layer.size)):
            outgoing, incoming = (_where(x, unit, shapes) for x in (layer.outgoing, layer.incoming))
            zero = [np.zeros_like(w) for w in base]
            silenced.append(_changed(names, base, outgoing, zero))
            redrawn.append(_changed(names, silenced[-1], incoming, other))
            for (param, at), used in plan.masks.items():
                own = incoming.get(param, np.False_) & used
                if own.any():
                    cases.append((layer.name, unit, at))
                    moved.append(_changed(names, base, {param: own}, other))
    assert {name for name, *_ in cases} == set(graph.names)
    stacked = [np.stack(each) for each in zip(base, *silenced, *redrawn, *moved, strict=True)]
    every = jit(jax.vmap(numbers, (None, 0)))(base, stacked)
    outs, kernels, made = jax.tree.map(np.asarray, every)
    half = len(silenced)
    for out in outs:
        size = 1 + np.abs(out[0]).max()
        before, after = out[1 : 1 + half], out[1 + half : 1 + 2 * half]
        np.testing.assert_allclose(before / size, after / size, atol=1e-5)
    outputs_of, moves = {}, set()
    for i, (name, unit, at) in enumerate(cases, 1 + 2 * half):
        # No other contraction uses the entries; which outputs of this one do they change?
        assert [at] == [j for j, w in enumerate(kernels) if (w[i] != w[0]).any()]
        rest = tuple(1 + a for a in range(made[at].ndim - 1) if a not in plan.axes[at])
        difference = np.abs(made[at] - made[at][:1]).max(axis=rest, initial=0)[i].reshape(-1)
        outputs = np.flatnonzero(difference > 1e-6 * np.abs(made[at][0]).max()).tolist()
        assert outputs or not matter  # a depthwise kernel may read zeros alone
        for output in outputs:
            assert outputs_of.setdefault((at, output), (name, unit)) == (name, unit)
        moves |= {name} if any((out[i] != out[0]).any() for out in outs) else set()
    assert not matter or moves == set(graph.names), "some layers have no part in the output"


class _Plan(NamedTuple):
    axes: list  # of every contraction's output, along which its units lie
    masks: dict  # (parameter, contraction): which entries it uses


def _plan(run, names, base):
    kept = []

    def kernels(leaves):
        seen, _ = run(leaves)
        kept[:] = [seen]
        return [jnp.sum(kernel) for kernel in seen.kernels]

    jax.eval_shape(kernels, base)
    (seen,) = kept
    every = [param for own in seen.params for param in own]
    if len(set(every)) < len(every):
        entries = jit(jax.jacrev(kernels))(base)
    else:  # nothing to find out
        entries = [[np.ones_like(w) for w in base]] * len(seen.kernels)
    masks = {
        (param, at): np.asarray(leaves[names.index(param)]) != 0
        for at, (own, leaves) in enumerate(zip(seen.params, entries, strict=True))
        for param in own
    }
    return _Plan(seen.axes, masks)
