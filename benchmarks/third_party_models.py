"""What `trace_units` finds in models that others wrote.

    python -m venv models
    models/bin/pip install . pytest einops flax dm-haiku equinox rejax gymnax "transformers<4.57"
    models/bin/python benchmarks/third_party_models.py --sources SOURCES [PART OF A NAME …]

Run it from the root of the repository: the two properties of units are checked as in the tests.
Models are small and their parameters random; nothing is downloaded. Models that are no package's
are read from a folder of checkouts: SOURCES/cleanrl, purejaxrl, flax, gpt-jax, equinox and
dm-haiku, of the repositories of these names on GitHub (of vwxyzjn, luchris429, google, jenkspt,
patrick-kidger and google-deepmind). Without --sources they are left out.

Prints a Markdown table: the share of all entries that belong to a unit or to the output layer, why
other parameters are left alone, and the seconds of a processor that tracing took.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.optim import UnitGraph, trace_units, trees

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.optim.unit_checks import assert_complete, check_units

KEY = jax.random.key(0)
VECTORS = jax.random.normal(KEY, (2, 5))
SEQUENCES = jax.random.normal(KEY, (2, 4, 5))
TOKENS = jnp.array([[1, 5, 3, 2], [7, 2, 4, 1]])
IMAGES = jax.random.normal(KEY, (2, 32, 32, 3))
FRAMES = jax.random.normal(KEY, (2, 4, 52, 52))  # as Atari gives them, but smaller


class Model(NamedTuple):
    """A function of parameters and inputs.

    Attributes:
      apply: the function, as a user would hand it to `trace_units`.
      params: its parameters.
      inputs: its inputs.
      output: picks from its results those that are no state, to which the two properties apply.
      options: of `trace_units`.
    """

    apply: Callable[..., Any]
    params: Any
    inputs: tuple[Any, ...]
    output: Callable[[Any], Any] = lambda out: out
    options: Mapping[str, Any] = MappingProxyType({})


def linen(module: Any, *inputs: Any, **options: Any) -> Model:
    """Return a module of Flax Linen with random parameters."""
    params = module.init(KEY, *inputs, **options)
    return Model(lambda params, *inputs: module.apply(params, *inputs, **options), params, inputs)


def definitions(path: Path, **given: Any) -> dict[str, Any]:
    """Run the imports, classes and functions of a file or notebook, and nothing else of it.

    What is not installed is left out, with the classes and functions that need it at once.

    Args:
      path: the file.
      **given: what names are to mean, whatever the file imports or defines.
    """
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = [
            cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"
        ]
        text = "\n".join("".join(cell) for cell in cells)
    space: dict[str, Any] = {"__name__": path.stem, **given}
    sys.modules[path.stem] = type(sys)(path.stem)  # `dataclasses` looks for it
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)
    for node in ast.parse(text).body:
        if isinstance(node, kinds):
            with contextlib.suppress(ImportError, NameError):
                exec(compile(ast.Module([node], []), str(path), "exec"), space)
            space |= given
    return space


# Agents ------------------------------------------------------------------------------------------


def cleanrl(sources: Path, name: str) -> Model:
    """Return a network of CleanRL."""
    file = {
        "PPO": "ppo_atari_envpool_xla_jax",
        "IMPALA CNN": "qdagger_dqn_atari_jax_impalacnn",
        "C51": "c51_atari_jax",
    }.get(name, "td3_continuous_action_jax")
    space = definitions(sources / "cleanrl/cleanrl" / f"{file}.py")
    if name == "IMPALA CNN":
        return linen(space["QNetwork"](action_dim=3), FRAMES)
    if name == "C51":
        return linen(space["QNetwork"](action_dim=3, n_atoms=5), FRAMES)
    if name == "TD3, actor":
        return linen(space["Actor"](2, jnp.ones(2), jnp.zeros(2)), VECTORS)
    if name == "TD3, critic":
        return linen(space["QNetwork"](), VECTORS, jnp.ones((2, 2)))
    network, actor, critic = space["Network"](), space["Actor"](action_dim=3), space["Critic"]()
    params = network.init(KEY, FRAMES)
    hidden = network.apply(params, FRAMES)
    params = space["AgentParams"](params, actor.init(KEY, hidden), critic.init(KEY, hidden))

    def apply(params: Any, x: Any) -> Any:
        hidden = network.apply(params.network_params, x)
        return actor.apply(params.actor_params, hidden), critic.apply(params.critic_params, hidden)

    return Model(apply, params, (FRAMES,))


def purejaxrl(sources: Path, name: str) -> Model:
    """Return the network of a program of purejaxrl, with the cell of the Flax of its day."""
    from flax import linen as nn

    if name == "PPO":
        network = definitions(sources / "purejaxrl/purejaxrl/ppo.py")["ActorCritic"](3)
        return linen(network, VECTORS)
    width = 128  # as wide as what it reads

    class Cell(nn.GRUCell):
        features: int = width

        @staticmethod
        def initialize_carry(rng: Any, batch: tuple[int, ...], size: int) -> Any:
            """Return zeros of shape [*batch, size]."""
            return jnp.zeros((*batch, size))

    names = {**vars(nn), "GRUCell": Cell}
    space = definitions(sources / "purejaxrl/purejaxrl/ppo_rnn.py", nn=type("linen", (), names))
    steps = jax.random.normal(KEY, (3, 2, 5)), jnp.zeros((3, 2), bool).at[1, 0].set(True)
    model = linen(space["ActorCriticRNN"](3, {}), jnp.zeros((2, width)), steps)
    return model._replace(output=lambda out: out[1:])


def rejax(name: str) -> Model:
    """Return a network of rejax with the arguments that it needs."""
    from rejax import networks

    mlp = {"hidden_layer_sizes": (16, 16), "activation": jax.nn.swish}
    bounds = {"action_range": (-1.0, 1.0)}
    if name == "IQN":
        return linen(networks.ImplicitQuantileNetwork(action_dim=3, **mlp), VECTORS, KEY)
    if name == "PPO, discrete":
        policy = networks.DiscretePolicy(3, **mlp)
        return method(policy, policy.log_prob_entropy, VECTORS, jnp.zeros(2, int))
    if name == "PPO, continuous":
        policy = networks.GaussianPolicy(2, **bounds, **mlp)
        return method(policy, policy.log_prob_entropy, VECTORS, jnp.zeros((2, 2)))
    if name == "PPO, critic":
        return linen(networks.VNetwork(**mlp), VECTORS)
    if name == "SAC":
        policy = networks.SquashedGaussianPolicy(2, **bounds, **mlp, log_std_range=(-10, 2))
        return method(policy, policy.action_log_prob, VECTORS, KEY)
    if name == "SAC, critic":
        return linen(networks.QNetwork(**mlp), VECTORS, jnp.ones((2, 2)))
    module = {"DQN": networks.DiscreteQNetwork, "PQN": networks.DuelingQNetwork}[name]
    return linen(module(action_dim=3, **mlp), VECTORS)


def method(module: Any, method: Any, *inputs: Any) -> Model:
    """Return a method of a Linen module other than `__call__`."""
    params = module.init(KEY, VECTORS, KEY)
    return Model(
        lambda params, *inputs: module.apply(params, *inputs, method=method), params, inputs
    )


# Flax --------------------------------------------------------------------------------------------


def hugging_face(name: str, x: Any, **sizes: Any) -> Model:
    """Return a model of Transformers without a checkpoint."""
    import transformers

    kind = name.removeprefix("Flax")
    for head in ("LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForImageClassification"):
        kind = kind.removesuffix(head)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    model = getattr(transformers, name)(config, seed=0)
    return Model(lambda params, x: model(x, params=params, train=False).logits, model.params, (x,))


def flax_example(sources: Path, name: str) -> Model:
    """Return a Linen model of Flax's examples."""
    folder = {"ResNet18, training": "imagenet"}.get(name, name.lower())
    space = definitions(sources / "flax/examples" / folder / "models.py")
    if name == "VAE":
        model = linen(space["VAE"](latents=4), jnp.ones((2, 6)), KEY)
        return model._replace(options={"output": lambda out: out})
    if name in ("lm1b", "wmt"):
        config = space["TransformerConfig"](
            vocab_size=32, output_vocab_size=32, emb_dim=16, num_heads=2, num_layers=2,
            qkv_dim=16, mlp_dim=32, max_len=16, deterministic=True,
        )  # fmt: skip
        if name == "lm1b":
            return linen(space["TransformerLM"](config), TOKENS)
        return linen(space["Transformer"](config), TOKENS, TOKENS)
    network = space["ResNet"]([2, 2, 2, 2], space["ResNetBlock"], num_classes=10, num_filters=4)
    variables = network.init(KEY, IMAGES, train=False)
    stats = {"batch_stats": variables["batch_stats"]}

    def forward(params: Any, x: Any) -> Any:
        return network.apply({"params": params, **stats}, x, mutable=["batch_stats"])

    def apply(params: Any, x: Any) -> Any:
        return jax.vmap(lambda x: forward(params, x), axis_name="batch")(x[None])

    return Model(apply, variables["params"], (IMAGES,), lambda out: out[0])


def gemma(sources: Path) -> Model:
    """Return the Gemma 3 of Flax's examples, which is an NNX module."""
    from flax import nnx

    sys.path.insert(0, str(sources / "flax/examples/gemma"))
    import transformer
    import transformer_cfg

    config = transformer_cfg.TransformerConfig.gemma3_270m(
        num_layers=2, num_embed=32, embed_dim=16, hidden_dim=32, num_heads=2, head_dim=8,
        attention_types=[transformer_cfg.AttentionType.GLOBAL] * 2,
    )  # fmt: skip
    graphdef, params, rest = nnx.split(
        transformer.Transformer(config, rngs=nnx.Rngs(0)), nnx.Param, ...
    )
    positions = jnp.broadcast_to(jnp.arange(4), (2, 4))
    mask = jnp.broadcast_to(jnp.tril(jnp.ones((4, 4), bool)), (2, 4, 4))

    def apply(params: Any, tokens: Any, positions: Any, mask: Any) -> Any:
        model = nnx.merge(graphdef, params, rest, copy=True)
        return model(tokens, positions, None, mask)[0]

    return Model(apply, params, (TOKENS, positions, mask))


def nano_gpt(sources: Path) -> Model:
    """Return nanoGPT as gpt-jax has it."""
    space = definitions(sources / "gpt-jax/model.py")
    config = space["GPTConfig"](
        block_size=16, vocab_size=32, num_layers=2, num_heads=2, num_embeds=16
    )
    network = space["GPT"](config)
    params = network.init(KEY)
    return Model(lambda params, x: network.apply(params, x, deterministic=True), params, (TOKENS,))


# Haiku -------------------------------------------------------------------------------------------


def haiku(net: Callable[[Any], Any], x: Any) -> Model:
    """Return a function of Haiku with state."""
    import haiku as hk

    init, apply = hk.transform_with_state(net)
    params, state = init(KEY, x)
    return Model(
        lambda params, state, x: apply(params, state, KEY, x),
        params,
        (state, x),
        lambda out: out[0],
    )


def haiku_resnet18(x: Any) -> Any:
    """Run a ResNet-18 in training mode."""
    import haiku as hk

    return hk.nets.ResNet18(10)(x, is_training=True)


def haiku_mobilenet(x: Any) -> Any:
    """Run a MobileNet V1 in training mode."""
    import haiku as hk

    return hk.nets.MobileNetV1(num_classes=10)(x, is_training=True)


def haiku_deep_rnn(x: Any) -> Any:
    """Run two LSTMs with skip connections."""
    import haiku as hk

    core = hk.deep_rnn_with_skip_connections([hk.LSTM(16), hk.LSTM(16)])
    hs, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[0]), time_major=False)
    return hk.Linear(4)(hs)


def haiku_language_model(sources: Path) -> Model:
    """Return the transformer of Haiku's examples."""
    space = definitions(sources / "dm-haiku/examples/transformer/model.py")

    def net(x: Any) -> Any:
        stack = space["Transformer"](num_heads=2, num_layers=2, attn_size=8, dropout_rate=0.1)
        return space["LanguageModel"](stack, model_size=16, vocab_size=32, pad_token=0)(x)

    return haiku(net, TOKENS)


# Equinox -----------------------------------------------------------------------------------------


def equinox(name: str) -> Model:
    """Return a module of Equinox, as it is."""
    import equinox as eqx

    if name == "MLP":
        return Model(lambda m, x: jax.vmap(m)(x), eqx.nn.MLP(5, 3, 16, 2, key=KEY), (VECTORS,))
    attention = eqx.nn.MultiheadAttention(2, 5, output_size=8, use_value_bias=True, key=KEY)

    def attend(m: Any, x: Any) -> Any:
        return jax.vmap(lambda x: jax.vmap(m[1])(m[0](x, x, x)))(x)

    return Model(attend, (attention, eqx.nn.Linear(8, 3, key=KEY)), (SEQUENCES,))


def equinox_example(sources: Path, name: str) -> Model:
    """Return a model of Equinox's examples."""
    notebook = {"RNN": "train_rnn", "BERT": "bert", "U-Net": "unet"}.get(name, "vision_transformer")
    space = definitions(sources / "equinox/docs/examples" / f"{notebook}.ipynb", channels=3)
    if name == "RNN":
        model = space["RNN"](in_size=5, out_size=3, hidden_size=16, key=KEY)
        return Model(lambda m, x: jax.vmap(m)(x), model, (SEQUENCES,))
    if name == "BERT":
        config = {
            "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 32, "hidden_dropout_prob": 0.1, "type_vocab_size": 2,
            "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 16,
        }  # fmt: skip
        model = space["BertClassifier"](config=config, num_classes=3, key=KEY)
        text = {"token_ids": TOKENS, "segment_ids": jnp.zeros_like(TOKENS)}
        return Model(lambda m, x: jax.vmap(lambda x: m(x, False))(x), model, (text,))
    if name == "U-Net":
        model = space["UNet"](
            data_shape=(3, 8, 8), is_biggan=False, dim_mults=[1, 2], hidden_size=8, heads=2,
            dim_head=4, dropout_rate=0.1, num_res_blocks=2, attn_resolutions=[4], key=KEY,
        )  # fmt: skip
        pixels = IMAGES[:, :8, :8].transpose(0, 3, 1, 2)

        def denoise(m: Any, t: Any, x: Any) -> Any:
            return jax.vmap(lambda t, x: m(t, x, key=KEY))(t, x)

        return Model(denoise, model, (jnp.ones(2), pixels))
    model = space["VisionTransformer"](
        embedding_dim=16, hidden_dim=32, num_heads=2, num_layers=2, dropout_rate=0.1,
        patch_size=8, num_patches=16, num_classes=3, key=KEY,
    )  # fmt: skip
    pixels = IMAGES.transpose(0, 3, 1, 2)
    return Model(lambda m, x: jax.vmap(lambda x: m(x, False, KEY))(x), model, (pixels,))


SMALL = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2}
WORDS = {"vocab_size": 32, "max_position_embeddings": 16}
LLAMA = {**SMALL, **WORDS, "intermediate_size": 32, "num_key_value_heads": 1}
BERT = {**SMALL, "intermediate_size": 32}
GPT2 = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16, "vocab_size": 32}
GEMMA = {**LLAMA, "head_dim": 8, "hidden_activation": "gelu_pytorch_tanh"}
VIT = {**BERT, "image_size": 32, "patch_size": 8}
PIXELS = IMAGES[:1].transpose(0, 3, 1, 2)


def models(sources: Path | None) -> dict[str, Callable[[], Model]]:
    """Return functions that make the models, by their names in the table."""
    found: dict[str, Callable[[], Model]] = {}

    def add(family: str, names: list[str], make: Callable[..., Model], *args: Any) -> None:
        found.update({f"{family} {name}": lambda n=name: make(*args, n) for name in names})

    agents = ["DQN", "PQN", "IQN", "PPO, discrete", "PPO, continuous", "PPO, critic", "SAC"]
    add("rejax", [*agents, "SAC, critic"], rejax)
    found |= {
        "Transformers FlaxGPT2": lambda: hugging_face("FlaxGPT2LMHeadModel", TOKENS, **GPT2),
        "Transformers FlaxBert": lambda: hugging_face(
            "FlaxBertForMaskedLM", TOKENS, **BERT, **WORDS
        ),
        "Transformers FlaxViT": lambda: hugging_face(
            "FlaxViTForImageClassification", PIXELS, **VIT
        ),
        "Transformers FlaxLlama": lambda: hugging_face("FlaxLlamaForCausalLM", TOKENS, **LLAMA),
        "Transformers FlaxGemma": lambda: hugging_face("FlaxGemmaForCausalLM", TOKENS, **GEMMA),
        "Haiku ResNet18, training": lambda: haiku(haiku_resnet18, IMAGES),
        "Haiku MobileNetV1, training": lambda: haiku(haiku_mobilenet, IMAGES),
        "Haiku DeepRNN": lambda: haiku(haiku_deep_rnn, SEQUENCES),
    }
    add("Equinox", ["MLP", "MultiheadAttention"], equinox)
    if sources is not None:
        own = sources
        add("CleanRL", ["PPO", "IMPALA CNN", "C51", "TD3, actor", "TD3, critic"], cleanrl, own)
        add("purejaxrl", ["PPO", "PPO-RNN"], purejaxrl, own)
        add("Flax", ["ResNet18, training", "lm1b", "wmt", "VAE"], flax_example, own)
        found["Flax Gemma 3 (NNX)"] = lambda: gemma(own)
        found["nanoGPT"] = lambda: nano_gpt(own)
        found["Haiku language model"] = lambda: haiku_language_model(own)
        add("Equinox", ["ViT", "U-Net", "BERT", "RNN"], equinox_example, own)
    return found


# The table ---------------------------------------------------------------------------------------

SHORT = {
    "passes through 'dot_general' as a query or key": "query or key",
    "adds to what parameters that are not followed make of the input": "added to an embedding",
    "is read together with other units by one weight": "normalized with a constant",
    "is used by 'gather'": "an embedding",
    "is used by 'concatenate'": "class token",
    "has entries that are used twice": "used twice",
    "meets no unit in 'add'": "norm of what is no unit",
    "meets no unit in 'mul'": "norm of what is no unit",
}


def share(graph: UnitGraph) -> float:
    """Return the share of all entries that belong to a unit or to the output layer."""
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
    """Return why parameters without any entry of a unit are left alone, with their number."""
    linked = {link.param for layer in graph.layers for link in layer.links()}
    counted = collections.Counter[str]()
    for path, reason in graph.untraced:
        if path not in linked:
            before, _, own = reason.rpartition(", which ")
            read = "read by a parameter that is: " if "is read by" in before else ""
            counted[read + SHORT.get(own, own)] += 1
    return "; ".join(f"{n} × {reason}" for reason, n in counted.most_common()) or "–"


def check(model: Model, graph: UnitGraph) -> None:
    """Check that no parameter is missing, and both properties of a unit of every layer."""
    assert_complete(graph)
    arrays, combined = trees.parameters(model.params)

    def outputs(params: Any, *inputs: Any) -> Any:
        return model.output(model.apply(combined(params), *inputs))

    check_units(outputs, graph, arrays, *model.inputs, units=1, statistics=True, matter=False)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What `trace_units` finds in others' models.")
    parser.add_argument("--sources", type=Path, help="a folder of checkouts")
    parser.add_argument("--pairs", action="store_true", help="trace queries and keys as units")
    parser.add_argument("names", nargs="*", help="parts of the names of models; all without any")
    args = parser.parse_args()
    print("| model | units | share | left alone | seconds |")
    print("| --- | ---: | ---: | --- | ---: |")
    for name, make in models(args.sources).items():
        if args.names and not any(part in name for part in args.names):
            continue
        model = make()
        start = time.process_time()
        graph = trace_units(
            model.apply, model.params, *model.inputs, **model.options, pairs=args.pairs
        )
        seconds = time.process_time() - start
        check(model, graph)
        cells = int(graph.sizes.sum()), f"{share(graph):.0%}", reasons(graph), f"{seconds:.1f}"
        print(f"| {name} |", *(f"{cell} |" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
