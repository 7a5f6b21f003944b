"""Random networks: convolutions, dense layers, norms, sums and concatenations of any two points."""

import dataclasses
import math
from collections.abc import Callable

import hypothesis.strategies as st
import jax
import jax.numpy as jnp

ACTIVATIONS = [jnp.sin, jax.nn.leaky_relu, jnp.arcsinh]  # none saturates or dies
BLOCKS = [lambda f: f, jax.jit, jax.checkpoint]


@dataclasses.dataclass
class Program:
    """`steps` run in order; each makes a point from the points before it.

    Attributes:
      params: shapes of the parameters.
      points: shapes of the points without the batch; the first is the input.
      steps: (params, points) -> point.
      words: what the steps are.
    """

    params: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    points: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    steps: list[Callable] = dataclasses.field(default_factory=list)
    words: list[str] = dataclasses.field(default_factory=list)
    heads: list[tuple[str, int]] = dataclasses.field(default_factory=list)

    def __repr__(self):
        return f"{' '.join(self.words)}: {self.points} {self.params} {self.heads}"

    def param(self, *shape):
        name = f"p{len(self.params):02}"
        self.params[name] = shape
        return name

    def step(self, word, shape, function):
        self.words.append(word)
        self.points.append(tuple(shape))
        self.steps.append(function)

    def head(self, point):
        self.heads.append((self.param(self.points[point][0], 2), point))

    def __call__(self, params, x):
        points = [x]
        for step in self.steps:
            points.append(step(params, points))
        return [points[point] @ params[name] for name, point in self.heads]


def row(vector, like):
    """[channels] as [1, …, 1, channels]."""
    return vector.reshape((1,) * (like.ndim - 1) + vector.shape)


@st.composite
def programs(draw, statistics=True):
    """A program with an input of shape `points[0]`, and outputs of width 2."""
    image = draw(st.booleans())
    program = Program(points=[(5, 4, 2) if image else (3,)])
    if image:
        for _ in range(draw(st.integers(1, 3))):
            draw(st.sampled_from([conv, conv, pool, norm, merge]))(draw, program, statistics)
        flatten(draw, program)
    for _ in range(draw(st.integers(1, 4))):
        kinds = [dense, dense, norm, merge, merge, scan, reverse, strange]
        draw(st.sampled_from(kinds))(draw, program, statistics)
    program.head(-1)
    if draw(st.booleans()):
        vectors = [i for i, shape in enumerate(program.points) if len(shape) == 1]
        program.head(draw(st.sampled_from(vectors)))
    return program


def dense(draw, program, _):
    inputs, width = program.points[-1][0], draw(st.integers(1, 4))
    turned, scale = draw(st.booleans()), draw(st.sampled_from([None, 0.5]))
    w, b = program.param(*((width, inputs) if turned else (inputs, width))), program.param(width)
    act, block = draw(st.sampled_from(ACTIVATIONS)), draw(st.sampled_from(BLOCKS))

    @block
    def layer(w, b, x):
        w = w if scale is None else scale * w
        return act(x @ (w.T if turned else w) + b[None])

    program.step("dense", (width,), lambda p, points: layer(p[w], p[b], points[-1]))


def scan(draw, program, _):
    if program.points[-1][0] > 8:
        dense(draw, program, _)
    (width,) = program.points[-1]
    depth, reverse = draw(st.integers(1, 3)), draw(st.booleans())
    w, b = program.param(depth, width, width), program.param(depth, width)
    act, skip = draw(st.sampled_from(ACTIVATIONS)), draw(st.booleans())

    def layer(x, now):
        y = act(x @ now[0] + now[1][None])
        return x + y if skip else y, None

    def run(p, points):
        return jax.lax.scan(layer, points[-1], (p[w], p[b]), reverse=reverse)[0]

    program.step("scan", (width,), run)


def conv(draw, program, _):
    height, width, inputs = program.points[-1]
    depthwise, nchw = draw(st.booleans()), draw(st.booleans())
    stride, size = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    groups = inputs if depthwise else 1
    outputs = inputs * draw(st.integers(1, 2)) if depthwise else draw(st.integers(1, 4))
    shape = (size, size, inputs // groups, outputs)
    w = program.param(*((shape[3], shape[2], *shape[:2]) if nchw else shape))
    b, act = program.param(outputs), draw(st.sampled_from(ACTIVATIONS))

    def layer(p, points):
        x, dims = points[-1], ("NCHW", "OIHW", "NCHW") if nchw else ("NHWC", "HWIO", "NHWC")
        x = x.transpose(0, 3, 1, 2) if nchw else x
        x = jax.lax.conv_general_dilated(
            x, p[w], (stride, stride), "SAME", dimension_numbers=dims, feature_group_count=groups
        )
        x = x.transpose(0, 2, 3, 1) if nchw else x
        return act(x + row(p[b], x))

    shape = (math.ceil(height / stride), math.ceil(width / stride), outputs)
    program.step("depthwise" if depthwise else "conv", shape, layer)


def pool(draw, program, _):
    height, width, channels = program.points[-1]
    stride, largest = draw(st.integers(1, 2)), draw(st.booleans())
    start, combine = (-jnp.inf, jax.lax.max) if largest else (0.0, jax.lax.add)

    def layer(p, points):
        window, strides = (1, 2, 2, 1), (1, stride, stride, 1)
        return jax.lax.reduce_window(points[-1], start, combine, window, strides, "SAME")

    shape = (math.ceil(height / stride), math.ceil(width / stride), channels)
    program.step("pool", shape, layer)


def norm(draw, program, statistics):
    shape = program.points[-1]
    scale, bias = program.param(shape[-1]), program.param(shape[-1])
    measured = statistics and shape[-1] > 1 and draw(st.booleans())

    def layer(p, points):
        x = points[-1]
        mean, deviation = 0.3, 1.7
        if measured:
            mean = x.mean(-1, keepdims=True)
            deviation = jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 0.1)
        return (x - mean) / deviation * row(p[scale], x) + row(p[bias], x)

    program.step("layernorm" if measured else "norm", shape, layer)


def merge(draw, program, _):
    """The last point and one before it, added or side by side."""
    shape, before = program.points[-1], list(enumerate(program.points))[:-1]
    alike = [i for i, other in before if other == shape]
    beside = [i for i, other in before if other[:-1] == shape[:-1]]
    if alike and draw(st.booleans()):
        i = draw(st.sampled_from(alike))
        program.step(f"+{i}", shape, lambda p, points: points[-1] + points[i])
    elif beside:
        i = draw(st.sampled_from(beside))
        width = shape[-1] + program.points[i][-1]
        program.step(
            f"|{i}",
            (*shape[:-1], width),
            lambda p, points: jnp.concatenate([points[-1], points[i]], -1),
        )


def strange(draw, program, _):
    """Something that cannot be followed: units before it are refused, others must stay right."""
    if program.points[-1][0] > 8:
        dense(draw, program, _)
    (width,) = program.points[-1]
    w, act = program.param(width, width), draw(st.sampled_from(ACTIVATIONS))
    alike = [i for i, shape in enumerate(program.points) if shape == (width,)]
    i, kind = draw(st.sampled_from(alike)), draw(st.integers(0, 6))

    def layer(p, points):
        x, y = points[-1], points[i]
        return (
            lambda: x * act(y @ p[w]),
            lambda: jnp.sort(x @ p[w]) + y,
            lambda: act(act(x @ p[w]) @ p[w]) + y,
            lambda: jax.lax.scan(lambda h, _: (act(h @ p[w]), h), x, None, length=2)[1][1],
            lambda: jnp.where((y @ p[w])[:, :1] > 0, x, y),
            lambda: x @ (p[w] / (1 + p[w] ** 2)) + y,
            lambda: x / (1.5 + act(y @ p[w])[:, ::-1] ** 2),
        )[kind]()

    program.step("strange", (width,), layer)


def reverse(draw, program, _):
    program.step("reverse", program.points[-1], lambda p, points: points[-1][:, ::-1])


def flatten(draw, program):
    order = draw(st.sampled_from([(0, 1, 2, 3), (0, 3, 1, 2)]))

    def layer(p, points):
        return points[-1].transpose(order).reshape(points[-1].shape[0], -1)

    program.step("flatten", (math.prod(program.points[-1]),), layer)
