"""Recognizing a plain chain from shapes, and refusing everything else."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning.optim import recognize_units, sequential_units


def names(params):
    return list(recognize_units(params).names)


def chain(*sizes):
    return list(itertools.pairwise(sizes))


def test_natural_order_puts_layer_10_after_layer_2():
    sizes = [3, *range(20, 31), 2]
    params = {f"layer_{i}": {"kernel": jnp.ones(s)} for i, s in enumerate(chain(*sizes))}
    assert names(params) == [f"layer_{i}/kernel" for i in range(11)]
    assert [layer.size for layer in recognize_units(params).layers] == list(range(20, 31))


@pytest.mark.parametrize(
    "params",
    [
        {"params": {f"Dense_{i}": {"kernel": jnp.ones(s), "bias": jnp.ones(s[1])}
                    for i, s in enumerate(chain(3, 4, 5, 2))}},
        [(jnp.ones(s), jnp.ones(s[1])) for s in chain(3, 4, 5, 2)],
        [x for s in chain(3, 4, 5, 2) for x in (jnp.ones(s), jnp.ones(s[1]))],
        {f"{k}{i}": jnp.ones(s if k == "w" else s[1:])
         for i, s in enumerate(chain(3, 4, 5, 2)) for k in "wb"},
        [{"weight": jnp.ones(s[::-1]), "bias": jnp.ones(s[1])} for s in chain(3, 4, 5, 2)],
    ],
    ids=["linen", "pairs", "flat list", "flat dict", "transposed"],
)  # fmt: skip
def test_common_containers(params):
    graph = recognize_units(params)
    assert [layer.size for layer in graph.layers] == [4, 5]
    first = graph.layers[0]
    units = {first.name: np.arange(4) == 1}
    assert sum(int(m.sum()) for m in jax.tree.leaves(graph.incoming(units))) == 3
    assert sum(int(m.sum()) for m in jax.tree.leaves(graph.bias(units))) == 1
    assert sum(int(m.sum()) for m in jax.tree.leaves(graph.outgoing(units))) == 5


def test_layers_without_a_bias_and_scalars_beside():
    params = {"a": {"w": jnp.ones((3, 4))}, "b": {"w": jnp.ones((4, 2))}, "log_alpha": jnp.ones(())}
    graph = recognize_units(params)
    assert graph.names == ("a/w",)
    assert graph.layers[0].bias == ()


@pytest.mark.parametrize(
    "params",
    [
        jnp.ones(()),
        jnp.ones(3),
        {"w": jnp.ones((3, 4)), "b": jnp.ones(4)},
        (jnp.ones(3), jnp.ones((2, 2))),
    ],
)
def test_nothing_to_reset_is_no_error(params):
    assert recognize_units(params).layers == ()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"c": jnp.ones((3, 3, 1, 8)), "d": jnp.ones((8, 2))}, r"'c' has shape \(3, 3, 1, 8\)"),
        ([jnp.ones((3, 4)), jnp.ones((5, 2))], "do not form a chain"),
        ([jnp.ones((4, 4)), jnp.ones((4, 4))], r"stored \[in, out\] or \[out, in\]"),
        ([jnp.ones((8, 4)), jnp.ones((4, 8))], r"stored \[in, out\] or \[out, in\]"),
        (
            {
                "a": {"w": jnp.ones((3, 4)), "b": jnp.ones(4)},
                "b": {"w": jnp.ones((4, 2))},
                "norm": {"scale": jnp.ones(4)},
            },
            "The role of norm/scale is unknown",
        ),
        (
            [(jnp.ones((3, 4)), jnp.ones(4), jnp.ones(4)), (jnp.ones((4, 2)),)],
            "The role of 0/1, 0/2 is unknown",
        ),
        (
            {
                "q1": {"l0": {"w": jnp.ones((1, 4))}, "l1": {"w": jnp.ones((4, 1))}},
                "q2": {"l0": {"w": jnp.ones((1, 4))}, "l1": {"w": jnp.ones((4, 1))}},
            },
            "do not lie side by side",
        ),
        (
            {"head": {"w": jnp.ones((4, 2))}, "torso": {"w": jnp.ones((3, 4))}},
            "do not form a chain",
        ),
    ],
    ids=["conv", "broken", "square", "hourglass", "norm", "two vectors", "twins", "order"],
)  # fmt: skip
def test_anything_ambiguous_is_refused_with_a_way_out(params, message):
    with pytest.raises(ValueError, match=message) as error:
        recognize_units(params)
    assert "sequential_units" in str(error.value)


def test_a_square_network_with_the_layout_said():
    params = [jnp.ones((4, 4)), jnp.ones((4, 4))]
    for layout, axis in (("in_out", 1), ("out_in", 0)):
        graph = sequential_units(params, ["0", "1"], layout=layout)
        assert graph.layers[0].incoming[0].axes == (axis,)


def test_a_masked_layer_amid_the_chain_is_refused():
    params = {f"layer_{i}": {"kernel": jnp.ones(s)} for i, s in enumerate(chain(3, 4, 4, 4, 2))}
    params["layer_1"]["kernel"] = optax.MaskedNode()
    with pytest.raises(ValueError, match="layer_1/kernel' is masked"):
        recognize_units(params)
    params = {f"layer_{i}": {"kernel": jnp.ones(s)} for i, s in enumerate(chain(3, 4, 5, 2))}
    params["layer_2"] = {"kernel": optax.MaskedNode()}  # the head: what feeds it counts as output
    assert names(params) == ["layer_0/kernel"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernels": ["a", "z"]}, r"\['z'\] are not kernels"),
        ({"kernels": ["a", "b"], "layout": "io"}, "layout must be"),
        ({"kernels": ["a", "b"], "flatten": "nhwc"}, "flatten must be"),
        ({"kernels": ["b", "a"]}, "cannot read the 2 units"),
    ],
)
def test_bad_lists_of_kernels(arguments, message):
    params = {"a": jnp.ones((3, 4)), "b": jnp.ones((4, 2))}
    with pytest.raises(ValueError, match=message):
        sequential_units(params, **arguments)
