"""`attach_reset_method` answers bad input with what is wrong, what is valid and what to do."""

import jax
import jax.numpy as jnp
import optax
import pytest

from continual_learning.optim import CBP, CPR, ReDo, attach_reset_method, sequential_units


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: attach_reset_method(), ValueError, "'tx' is missing"),
        (lambda: attach_reset_method(tx=optax.sgd(1.0)), ValueError, "'reset_method' is missing"),
        (lambda: attach_reset_method(("optimizer", 1)), ValueError, r"got \('optimizer', 1\)"),
        (
            lambda: attach_reset_method(("tx", optax.sgd(1.0)), tx=optax.sgd(1.0)),
            ValueError,
            "'tx' is given twice",
        ),
        (
            lambda: attach_reset_method(tx=optax.sgd(1.0), reset_method=CPR),  # pyright: ignore
            TypeError,
            r"an instance of a ResetMethod such as CPR\(\), not the class itself",
        ),
        (
            lambda: attach_reset_method(tx=CPR(), reset_method=CPR()),  # pyright: ignore
            TypeError,
            "'tx' must be an Optax optimizer",
        ),
        (
            lambda: attach_reset_method(
                tx=optax.sgd(1.0),
                reset_method=CPR(),
                units="mlp",  # pyright: ignore
            ),
            TypeError,
            "units must be a UnitGraph or a callable",
        ),
    ],
)
def test_bad_calls_of_attach(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_bad_calls_of_init_and_update(mlp):
    params = mlp()
    grads = jax.tree.map(jnp.ones_like, params)
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=CPR())
    state = tx.init(params)
    with pytest.raises(ValueError, match="`update` needs the parameters"):
        tx.update(grads, state)
    with pytest.raises(ValueError, match="no gradient for layer_0/kernel"):
        tx.update({**grads, "layer_0": {"kernel": None, "bias": None}}, state, params)
    other = sequential_units(mlp((5, 9, 3)), ["layer_0/kernel", "layer_1/kernel"])
    wrong = attach_reset_method(tx=optax.sgd(0.1), reset_method=CPR(), units=other)
    with pytest.raises(ValueError, match="made for another model"):
        wrong.init(params)
    wrong = attach_reset_method(tx=optax.sgd(0.1), reset_method=CPR(), units=lambda params: None)
    with pytest.raises(TypeError, match="must return a UnitGraph"):
        wrong.init(params)


@pytest.mark.parametrize("method", [CBP(), ReDo(0.1, 10)])
def test_bad_features(mlp, method):
    name = type(method).__name__
    params = mlp()
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=method)
    state = tx.init(params)
    good = {"layer_0/kernel": jnp.ones((4, 6)), "layer_1/kernel": jnp.ones((4, 7))}

    def update(**extra):
        return tx.update(params, state, params, **extra)

    update(features=good, value=1.0, sample_scores="ignored")
    with pytest.raises(
        ValueError, match=f"{name} needs `features`.*layer_0/kernel.*graph.with_features"
    ):
        update()
    with pytest.raises(TypeError, match="must be a mapping"):
        update(features=[1, 2])
    with pytest.raises(ValueError, match=r"unknown layers \['Dense_0'\]"):
        update(features={**good, "Dense_0": jnp.ones((4, 6))})
    with pytest.raises(ValueError, match=r"lacks the layers \['layer_1/kernel'\]"):
        update(features={"layer_0/kernel": jnp.ones((4, 6))})
    with pytest.raises(ValueError, match=r"must be \[batch, …, 6\] \(units last\), got \[6, 4\]"):
        update(features={**good, "layer_0/kernel": jnp.ones((6, 4))})
    with pytest.raises(ValueError, match=r"got \[6\]"):
        update(features={**good, "layer_0/kernel": jnp.ones(6)})


def test_features_must_have_the_positions_that_are_read():
    params = {"conv": {"kernel": jnp.ones((3, 3, 1, 2))}, "out": {"kernel": jnp.ones((8, 1))}}
    graph = sequential_units(params, ["conv/kernel", "out/kernel"])
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=CBP(), units=graph)
    state = tx.init(params)
    tx.update(params, state, params, features={"conv/kernel": jnp.ones((1, 2, 2, 2))})
    with pytest.raises(ValueError, match="has 9 positions, but 'out/kernel' reads 4"):
        tx.update(params, state, params, features={"conv/kernel": jnp.ones((1, 3, 3, 2))})


def test_bad_sample_scores(mlp):
    params = mlp()
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=CPR(score="per_sample"))
    state = tx.init(params)
    with pytest.raises(ValueError, match=r"CPR needs `sample_scores`.*graph.per_sample_scores"):
        tx.update(params, state, params, features={})
    with pytest.raises(ValueError, match=r"must be \[6\] or \[batch, 6\], got \[5\]"):
        scores = {"layer_0/kernel": jnp.ones(5), "layer_1/kernel": jnp.ones(7)}
        tx.update(params, state, params, sample_scores=scores)


def test_methods_that_need_no_features_ignore_them(mlp):
    params = mlp()
    tx = attach_reset_method(tx=optax.sgd(0.1), reset_method=CPR())
    tx.update(params, tx.init(params), params, features="nonsense")
