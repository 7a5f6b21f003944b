"""What `trace_units` finds in models that others wrote.

    python -m venv models
    models/bin/pip install . pytest flax dm-haiku equinox rejax gymnax "transformers<4.57"
    models/bin/python benchmarks/third_party_models.py [PART OF A NAME]

Run it from the root of the repository: the two properties of units are checked as in the tests.
Models are small and their parameters random; nothing is downloaded. Prints a Markdown table: the
share of all entries that belong to a unit or to the output layer, why other parameters are left
alone, and the seconds of a processor that tracing took.
"""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import UnitGraph, trace_units

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.optim.unit_checks import check_units

Model = tuple[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]]
KEY = jax.random.key(0)
OBSERVATION = jnp.ones((2, 5))
TOKENS = jnp.array([[1, 5, 3, 2], [7, 2, 4, 1]])
IMAGES = jax.random.normal(KEY, (2, 32, 32, 3))


def linen(module: Any, *inputs: Any, **options: Any) -> Model:
    """A module of Flax Linen."""
    return module.apply, module.init(KEY, *inputs), inputs, options


def rejax(name: str) -> Model:
    """A network of rejax with the arguments that it needs."""
    from rejax import networks

    mlp = {"hidden_layer_sizes": (16, 16), "activation": jax.nn.swish}
    bounds = {"action_range": (-1.0, 1.0)}
    action = jnp.zeros(2, int)
    if name == "IQN":
        module = networks.ImplicitQuantileNetwork(action_dim=3, **mlp)
        return linen(module, OBSERVATION, KEY)
    if name == "PPO, discrete":
        module = networks.DiscretePolicy(3, **mlp)
        return module_method(module, module.log_prob_entropy, OBSERVATION, action)
    if name == "PPO, continuous":
        module = networks.GaussianPolicy(2, **bounds, **mlp)
        return module_method(module, module.log_prob_entropy, OBSERVATION, jnp.zeros((2, 2)))
    if name == "SAC":
        module = networks.SquashedGaussianPolicy(2, **bounds, **mlp, log_std_range=(-10, 2))
        return module_method(module, module.action_log_prob, OBSERVATION, KEY)
    if name == "SAC, critic":
        return linen(networks.QNetwork(**mlp), OBSERVATION, jnp.ones((2, 2)))
    module = {"DQN": networks.DiscreteQNetwork, "PQN": networks.DuelingQNetwork}[name]
    return linen(module(action_dim=3, **mlp), OBSERVATION)


def module_method(module: Any, method: Any, *inputs: Any) -> Model:
    """A method of a Linen module other than `__call__`."""
    params = module.init(KEY, OBSERVATION, KEY)

    def apply(params: Any, *inputs: Any) -> Any:
        return module.apply(params, *inputs, method=method)

    return apply, params, inputs, {}


def hugging_face(name: str, *inputs: Any, output: str = "logits", **sizes: Any) -> Model:
    """A model of Transformers without a checkpoint."""
    import transformers

    kind = name.removeprefix("Flax")
    for head in ("LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForImageClassification", "Model"):
        kind = kind.removesuffix(head)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = getattr(transformers, name)(config, seed=0)

    def apply(params: Any, x: Any) -> Any:
        return model(x, params=params, train=False)[output]

    return apply, model.params, inputs, {}


def haiku(net: Callable[[Any], Any], x: Any) -> Model:
    """A function of Haiku with state."""
    import haiku as hk

    init, apply = hk.without_apply_rng(hk.transform_with_state(net))
    params, state = init(KEY, x)
    return apply, params, (state, x), {}


def haiku_resnet18(x: Any) -> Any:
    """ResNet-18 in training mode."""
    import haiku as hk

    return hk.nets.ResNet18(10)(x, is_training=True)


def haiku_mobilenet(x: Any) -> Any:
    """MobileNet V1 in training mode."""
    import haiku as hk

    return hk.nets.MobileNetV1(num_classes=10)(x, is_training=True)


def haiku_deep_rnn(x: Any) -> Any:
    """Two LSTMs with skip connections."""
    import haiku as hk

    core = hk.deep_rnn_with_skip_connections([hk.LSTM(16), hk.LSTM(16)])
    hs, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[0]), time_major=False)
    return hk.Linear(4)(hs)


def haiku_transformer(x: Any) -> Any:
    """A block of attention and an MLP on embedded tokens."""
    import haiku as hk

    h = hk.Embed(10, 16)(x)
    y = hk.LayerNorm(-1, True, True)(h)
    h += hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling(), model_size=16)(
        y, y, y
    )
    h += hk.nets.MLP([64, 16], activation=jax.nn.gelu)(hk.LayerNorm(-1, True, True)(h))
    return hk.Linear(10)(hk.LayerNorm(-1, True, True)(h))


def equinox(name: str) -> Model:
    """A module of Equinox, as it is."""
    import equinox as eqx

    if name == "MLP":
        module, x = eqx.nn.MLP(5, 3, 16, 2, key=KEY), OBSERVATION
        return (lambda m, x: jax.vmap(m)(x)), module, (x,), {}
    x = jnp.ones((2, 4, 5))
    if name == "MultiheadAttention":
        module = eqx.nn.MultiheadAttention(2, 5, output_size=8, use_value_bias=True, key=KEY)
        head = eqx.nn.Linear(8, 3, key=KEY)

        def attend(m: Any, x: Any) -> Any:
            return jax.vmap(lambda x: jax.vmap(m[1])(m[0](x, x, x)))(x)

        return attend, (module, head), (x,), {}
    module = eqx.nn.GRUCell(5, 16, key=KEY), eqx.nn.Linear(16, 3, key=KEY)

    def unroll(m: Any, x: Any) -> Any:
        def one(xs: Any) -> Any:
            h, _ = jax.lax.scan(lambda h, x: (m[0](x, h), None), jnp.zeros(16), xs)
            return m[1](h)

        return jax.vmap(one)(x)

    return unroll, module, (x,), {}


SMALL = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2}
WORDS = {"vocab_size": 32, "max_position_embeddings": 16}
LLAMA = {**SMALL, **WORDS, "intermediate_size": 32, "num_key_value_heads": 1}
BERT = {**SMALL, "intermediate_size": 32}
GPT2 = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16, "vocab_size": 32}
PIXELS = IMAGES[:1].transpose(0, 3, 1, 2)
MODELS: dict[str, Callable[[], Model]] = {
    **{
        f"rejax {name}": lambda name=name: rejax(name)
        for name in ("PPO, discrete", "PPO, continuous", "SAC", "SAC, critic", "DQN", "PQN", "IQN")
    },
    "Transformers FlaxGPT2": lambda: hugging_face("FlaxGPT2LMHeadModel", TOKENS, **GPT2),
    "Transformers FlaxBert": lambda: hugging_face("FlaxBertForMaskedLM", TOKENS, **BERT, **WORDS),
    "Transformers FlaxViT": lambda: hugging_face(
        "FlaxViTForImageClassification", PIXELS, **BERT, image_size=32, patch_size=8
    ),
    "Transformers FlaxLlama": lambda: hugging_face("FlaxLlamaForCausalLM", TOKENS, **LLAMA),
    "Transformers FlaxGemma": lambda: hugging_face(
        "FlaxGemmaForCausalLM", TOKENS, **LLAMA, head_dim=8
    ),
    "Haiku ResNet18, training": lambda: haiku(haiku_resnet18, IMAGES),
    "Haiku MobileNetV1, training": lambda: haiku(haiku_mobilenet, IMAGES),
    "Haiku DeepRNN": lambda: haiku(haiku_deep_rnn, jnp.ones((2, 4, 5))),
    "Haiku transformer": lambda: haiku(haiku_transformer, TOKENS),
    **{
        f"Equinox {name}": lambda name=name: equinox(name)
        for name in ("MLP", "MultiheadAttention", "GRUCell")
    },
}


def share(graph: UnitGraph) -> float:
    """The share of all entries that belong to a unit or to the output layer."""
    known = {path: np.zeros(shape, bool) for path, shape in graph.shapes.items()}
    for layer in graph.layers:
        for link in layer.links():
            shape = graph.shapes[link.param]
            others = tuple(a for a in range(len(shape)) if a not in link.axes)
            known[link.param] |= np.expand_dims(link.index >= 0, others)
    for path in graph.output:
        known[path][...] = True
    return sum(int(mask.sum()) for mask in known.values()) / sum(m.size for m in known.values())


def reasons(graph: UnitGraph) -> str:
    """Why parameters are left alone, with the number of parameters."""
    linked = {link.param for layer in graph.layers for link in layer.links()}
    own = [reason.split(", which ")[-1] for path, reason in graph.untraced if path not in linked]
    counted = collections.Counter(own)
    return "; ".join(f"{n} × {reason}" for reason, n in counted.most_common()) or "–"


def main() -> None:
    """Prints the table."""
    print("| model | units | share | left alone | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for name, make in MODELS.items():
        if not all(word in name for word in sys.argv[1:]):
            continue
        apply, params, inputs, options = make()
        start = time.process_time()
        graph = trace_units(apply, params, *inputs, **options)
        seconds = time.process_time() - start
        check(apply, graph, params, inputs)
        units = int(graph.sizes.sum())
        print(
            f"| {name} | {units} | {share(graph):.0%} | {reasons(graph)} | {seconds:.1f} |",
            flush=True,
        )


def check(apply: Callable[..., Any], graph: UnitGraph, params: Any, inputs: Any) -> None:
    """Both properties of a unit of every layer; of state that is returned they say nothing."""
    from continual_learning.optim import trees

    arrays, combined = trees.parameters(params)

    def outputs(params: Any, *inputs: Any) -> Any:
        out = apply(combined(params), *inputs)
        return out[0] if isinstance(out, tuple) else out

    check_units(outputs, graph, arrays, *inputs, units=1, statistics=True, matter=False)


if __name__ == "__main__":
    main()
