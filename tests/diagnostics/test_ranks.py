import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continual_learning.diagnostics import (
    effective_rank,
    feature_rank,
    rank_metrics,
    singular_values,
    srank,
    stable_rank,
)

SINGLE = {
    "srank": srank,
    "stable_rank": stable_rank,
    "effective_rank": effective_rank,
    "feature_rank": feature_rank,
}
COUNTS = ("srank", "feature_rank")

# Relative and absolute.
SPECTRUM_TOLERANCE = {"float32": (5e-5, 1e-5), "float64": (1e-9, 1e-11)}
RANK_TOLERANCE = {"float32": (2e-3, 0.0), "float64": (1e-9, 1e-11)}

FEATURES = arrays(np.float32, (6, 4), elements=st.integers(-4, 8).map(lambda i: max(i, 0) / 4))

compiled_ranks = jax.jit(rank_metrics)


def run(h):
    return compiled_ranks({"hidden": h})


def assert_trees_close(actual, expected, rtol=1e-5, atol=1e-5):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol, atol), actual, expected)


class TestGolden:
    def test_singular_values_and_ranks(self, golden, precision):
        # The reference leaves the ranks of convolutional layers open.
        dense = [i for i in range(golden["n_layers"]) if f"singular_values_{i}" in golden]
        features = {f"layer_{i}": golden[f"act_{i}"].astype(precision) for i in dense}

        @jax.jit
        def run(features):
            return (
                rank_metrics(features, delta=golden["delta"], epsilon=golden["rank_eps"]),
                {name: singular_values(h) for name, h in features.items()},
            )

        metrics, spectra = run(features)
        for i, name in zip(dense, features, strict=True):
            assert spectra[name].dtype == precision
            expected = golden[f"singular_values_{i}"]
            np.testing.assert_allclose(spectra[name], expected, *SPECTRUM_TOLERANCE[precision])
            for measure in SINGLE:
                tolerance = (0.0, 0.0) if measure in COUNTS else RANK_TOLERANCE[precision]
                np.testing.assert_allclose(metrics[measure][name], golden[measure][i], *tolerance)


class TestKnownAnswers:
    h = np.array([[0.0, 3.0], [4.0, 0.0]], np.float32)

    def test_two_directions(self):
        np.testing.assert_allclose(singular_values(self.h), [4, 3], rtol=1e-6)
        assert srank(self.h) == 2
        np.testing.assert_allclose(stable_rank(self.h), 25 / 16, rtol=1e-6)
        entropy = -(4 / 7 * np.log(4 / 7) + 3 / 7 * np.log(3 / 7))
        np.testing.assert_allclose(effective_rank(self.h), np.exp(entropy), rtol=1e-6)
        assert feature_rank(self.h) == 2

    def test_srank_reaches_its_share_inclusively(self):
        assert srank(np.diag([3.0, 1.0]), delta=0.25) == 1
        assert srank(np.diag([3.0, 1.0]), delta=0.24) == 2
        assert srank(np.eye(2), delta=0.0) == 2

    def test_feature_rank_divides_by_the_root_of_the_rows(self):
        # Singular values 4 and 3 over √2 are 2.83 and 2.12.
        assert [feature_rank(self.h, epsilon).item() for epsilon in (2, 2.5, 3)] == [2, 1, 0]
        # Repeating the samples changes no direction: √2 larger values, √2 larger divisor.
        assert feature_rank(np.concatenate([self.h, self.h]), 2.5) == 1

    @pytest.mark.parametrize("shape", [(4, 3), (2, 5)])
    def test_all_zero_layer(self, shape):
        for layers in run(np.zeros(shape)).values():
            assert layers == {"total": 0, "hidden": 0}

    @pytest.mark.parametrize("width", [1, 5])
    def test_one_live_unit(self, width):
        h = np.zeros((4, width), np.float32)
        h[:, 0] = [1, 2, 0, 3]
        for layers in run(h).values():
            np.testing.assert_allclose(layers["hidden"], 1, rtol=1e-5)

    def test_positions_are_rows(self):
        h = np.random.default_rng(0).random((3, 2, 1, 4), np.float32)
        assert_trees_close(run(h), run(h.reshape(6, 4)))

    def test_total_is_the_sum_over_layers(self):
        metrics = compiled_ranks({"a": np.eye(2), "b": np.eye(3)})
        for layers in metrics.values():
            np.testing.assert_allclose(layers["total"], 5, rtol=1e-5)

    @pytest.mark.parametrize("scale", [1e-30, 1e30])
    def test_extreme_scales_neither_overflow_nor_vanish(self, scale):
        h = self.h * np.float32(scale)
        for measure in (srank, stable_rank, effective_rank):
            np.testing.assert_allclose(measure(h), measure(self.h), rtol=1e-5)


class TestPrecision:
    def test_half_precision_is_decomposed_in_float32(self):
        h = np.random.default_rng(0).random((2, 2)).astype(jnp.bfloat16)
        values = singular_values(h)
        assert values.dtype == jnp.float32
        np.testing.assert_allclose(values, singular_values(h.astype(np.float32)), rtol=1e-6)


class TestNotFinite:
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_ranks_are_nan(self, value):
        h = np.ones((4, 3), np.float32)
        h[1, 2] = value
        assert np.isnan(singular_values(h)).all()
        for layers in compiled_ranks({"bad": h, "good": np.ones((4, 3))}).values():
            assert np.isnan(layers["bad"])
            assert np.isnan(layers["total"])
            np.testing.assert_allclose(layers["good"], 1, rtol=1e-5)


class TestTransformations:
    features = {  # noqa: RUF012
        "conv": np.random.default_rng(0).random((3, 4, 2, 2, 5), np.float32),
        "dense": np.random.default_rng(1).random((3, 4, 6), np.float32),
    }

    def test_jit_and_vmap_change_nothing(self):
        per_seed = [compiled_ranks({n: h[i] for n, h in self.features.items()}) for i in range(3)]
        expected = jax.tree.map(lambda *x: np.stack(x), *per_seed)
        assert_trees_close(jax.jit(jax.vmap(rank_metrics))(self.features), expected)

    def test_single_ranks_agree(self):
        h = np.random.default_rng(0).random((2, 2), np.float32)
        expected = {name: {"total": rank(h), "hidden": rank(h)} for name, rank in SINGLE.items()}
        assert_trees_close(run(h), expected)

    def test_one_decomposition_per_layer(self):
        assert str(jax.make_jaxpr(rank_metrics)(self.features)).count(" svd[") == 2


class TestProperties:
    @settings(deadline=None)
    @given(FEATURES)
    def test_ranks_are_at_most_the_number_of_units(self, h):
        metrics = {name: layers["hidden"].item() for name, layers in run(h).items()}
        for rank in metrics.values():
            assert 0 <= rank <= 4 + 1e-4
            assert (rank == 0) == (not h.any())
        assert metrics["stable_rank"] <= metrics["effective_rank"] + 1e-4
        assert all(metrics[name].is_integer() for name in COUNTS)

    @settings(deadline=None)
    @given(FEATURES, st.permutations(range(6)), st.permutations(range(4)))
    def test_order_of_samples_and_units_does_not_matter(self, h, samples, units):
        assert_trees_close(run(h[samples][:, units]), run(h), rtol=1e-4, atol=1e-4)

    @settings(deadline=None)
    @given(FEATURES, st.floats(1e-3, 1e3))
    def test_only_feature_rank_depends_on_scale(self, h, scale):
        scaled, expected = run(h * np.float32(scale)), run(h)
        for metrics in (scaled, expected):
            metrics.pop("feature_rank")
        assert_trees_close(scaled, expected, rtol=1e-4, atol=1e-4)


class TestErrors:
    @pytest.mark.parametrize(
        ("function", "argument", "value"),
        [(srank, "delta", -0.1), (srank, "delta", 1.1), (feature_rank, "epsilon", -1.0)],
    )
    def test_thresholds_out_of_range(self, function, argument, value):
        with pytest.raises(ValueError, match=f"{argument} is {value}, but must be between 0 and"):
            function(np.ones((2, 3)), value)

    def test_layer_is_named(self):
        with pytest.raises(ValueError, match=r"features\['a'\] has shape \(3,\)"):
            rank_metrics({"a": np.ones(3)})
