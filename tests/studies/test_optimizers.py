"""Base optimizers by name: which names are valid, and what they make."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from continual_learning import cli
from continual_learning.optim import trace_units
from continual_learning.schema.errors import MissingExtraError, StudyError
from continual_learning.studies import methods, optimizers, registry, spec
from continual_learning.studies.experiment import MethodSpec
from tests.optim.rollouts import jit

PARAMS = {"a": jnp.arange(6.0).reshape(3, 2) / 3, "b": jnp.ones(2), "c": jnp.ones((2, 1))}
WARN = ("noisy_sgd", "optimistic_adam")  # that they will change
NEED_MORE = ("lbfgs", "contrib.momo", "contrib.momo_adam", "contrib.sophia")


def apply(p, x):
    return jnp.tanh(x @ p["a"] + p["b"][None]) @ p["c"]


def final(tx, steps=3):
    x = jnp.eye(3)

    def step(carry, _):
        params, state = carry
        grads = jax.grad(lambda p: jnp.mean(apply(p, x) ** 2))(params)
        updates, state = tx.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(step, (PARAMS, tx.init(PARAMS)), length=steps)
    return params


def ours(name, reset=None, hyper=None, **options):
    method = MethodSpec(optimizer=name, learning_rate=0.1, reset=reset, **options)
    units = trace_units(apply, PARAMS, jnp.eye(3))
    return methods.transformation(method, units, init="he_uniform", hyper=hyper)


def close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7), a, b)


@pytest.mark.parametrize(
    ("name", "factory"),
    [
        ("sgd", optax.sgd),
        ("lion", optax.lion),
        ("muon", optax.contrib.muon),
        ("contrib.prodigy", optax.contrib.prodigy),
    ],
)
def test_a_name_is_the_factory_of_optax(name, factory):
    made, plain = jit(lambda: (final(ours(name)), final(factory(0.1))))()
    close(made, plain)


def test_a_reset_method_goes_around_any_of_them():
    tx = ours("rmsprop", "cpr", options={"every": 2, "max_reset": 0.5})
    params = jit(lambda: final(tx))()
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


def test_every_name_can_be_checked():
    """The names that agents cannot use tell the reason."""
    found = [name for name in optimizers.names() if name not in optimizers.PACKAGES]
    assert {"adam", "adamw", "muon", "sgd", "contrib.muon", "contrib.dog"} < {*found}
    for name in found:
        if name in NEED_MORE:
            with pytest.raises(StudyError, match=f"{name}, which needs more than gradients"):
                optimizers.check(name, eps_root=False)
        elif name not in WARN:
            optimizers.check(name, eps_root=False)


@pytest.mark.parametrize(
    "name",
    [
        "", "__builtins__", "contrib", "contrib.__name__", "adam.__globals__", "tree.map", "chain",
        "apply_updates", "scale_by_adam", "scale_by_learning_rate", "scale_by_rprop", "identity",
        "polyak_sgd", "contrib.dpsgd", "contrib.schedule_free", "contrib.muon.", " adam", "Adam",
        "os.system", "inject_hyperparams", "masked", "noisy sgd", "optax.adam",
    ],
)  # fmt: skip
def test_nothing_else_of_optax_can_be_named(name):
    with pytest.raises(StudyError, match="Unknown optimizer"):
        optimizers.make(name, 0.1)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("adm", "'adam'"), ("prodigy", "'contrib.prodigy'"), ("loin", "'lion'"), ("sdg", "'sgd'")],
)
def test_an_unknown_name_has_near_matches(name, hint):
    with pytest.raises(StudyError, match=f"Unknown optimizer '{name}'. Did you mean .*{hint}.*"):
        optimizers.make(name, 0.1)


def test_eps_root_reaches_those_that_have_it_and_is_refused_for_others():
    with_default, given, plain = jit(
        lambda: (
            final(ours("adabelief")),
            final(ours("adabelief", eps_root=0.01)),
            (final(optax.adabelief(0.1)), final(optax.adabelief(0.1, eps_root=0.01))),
        )
    )()
    close((with_default, given), plain)
    with pytest.raises(StudyError, match=r"eps_root is set, but lion has none.*: adabelief, adam"):
        ours("lion", eps_root=0.01)


def test_learning_rates_of_any_optimizer_may_be_lanes():
    rates = jnp.array([0.1, 0.01])
    lanes, alone = jit(
        lambda rates: (
            jax.vmap(lambda r: final(ours("lion", hyper={"learning_rate": r})))(rates),
            [final(optax.lion(rate)) for rate in (0.1, 0.01)],
        )
    )(rates)
    for i, each in enumerate(alone):
        close(jax.tree.map(lambda x, i=i: x[i], lanes), each)


# Packages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", optimizers.PACKAGES)
def test_a_package_is_imported_when_it_is_used(name, monkeypatch):
    package = optimizers.PACKAGES[name]
    for module in (package.module, package.module.partition(".")[0]):
        fake = types.ModuleType(module)
        fake.__path__ = []
        setattr(fake, package.factory, optax.sgd)
        monkeypatch.setitem(sys.modules, module, fake)
    close(final(optimizers.make(name, 0.1)), final(optax.sgd(0.1)))
    with pytest.raises(StudyError, match=f"eps_root is set, but {name} has none"):
        optimizers.check(name, eps_root=True)


@pytest.mark.parametrize(("name", "words"), [("kron", "psgd-jax"), ("soap", "git.*SOAP_JAX")])
def test_the_error_names_the_package_to_install(name, words, monkeypatch):
    module = optimizers.PACKAGES[name].module.partition(".")[0]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"{name} needs .* Run: pip install .*{words}"):
        optimizers.check(name, eps_root=False)


def test_a_package_that_does_not_fit_is_not_called_missing(monkeypatch):
    """The last psgd-jax (0.2.9) imports a module that newer versions of Optax do not have."""
    fake = types.ModuleType("soap_jax")  # without the factory
    monkeypatch.setitem(sys.modules, "soap_jax", fake)
    with pytest.raises(MissingExtraError, match=r"cannot be imported.*soap-jax may need another"):
        optimizers.make("soap", 0.1)


# Descriptions ------------------------------------------------------------------------------------


def test_descriptions_are_made_without_the_check():
    experiment = registry.get("permuted_digits").override(**{"adam.optimizer": "adm"})
    text = spec.dumps(experiment)
    assert spec.loads(text) == experiment
    with pytest.raises(StudyError, match=r"methods\.adam: Unknown optimizer 'adm'"):
        methods.check(experiment)
    with pytest.raises(StudyError, match="optimizer must be text"):
        MethodSpec(optimizer=3)  # pyright: ignore[reportArgumentType]


def test_eps_root_is_checked_in_methods_and_in_lanes():
    experiment = registry.get("permuted_digits").override(**{"adam.optimizer": "sgd"})
    methods.check(experiment)
    with pytest.raises(StudyError, match=r"methods\.adam: eps_root is set, but sgd has none"):
        methods.check(experiment.override(**{"adam.eps_root": 1e-8}))
    adam = {"adam": experiment.methods["adam"]}
    with pytest.raises(StudyError, match=r"lanes: eps_root is set, but sgd has none"):
        methods.check(experiment.override(methods=adam, lanes={"eps_root": (1e-8, 1e-6)}))


def test_the_command_line_takes_any_name(capsys, tmp_path):
    words = ["show", "permuted_digits", "--set"]
    assert cli.main([*words, "adam.optimizer=lion"]) == 0
    shown = capsys.readouterr().out
    assert 'optimizer = "lion"' in shown
    file = tmp_path / "mine.toml"
    file.write_text(shown, encoding="utf-8")
    assert spec.load(file).methods["adam"].optimizer == "lion"
    assert cli.main(["show", str(file)]) == 0
    assert cli.main([*words, "adam.optimizer=contrib.prodgy"]) != 0
    assert "Did you mean 'contrib.prodigy'" in capsys.readouterr().err
