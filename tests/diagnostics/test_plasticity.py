import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from continual_learning.diagnostics import (
    combined,
    dormant_ratio,
    dormant_score,
    linearized_ratio,
    low_variance_ratio,
    plasticity_metrics,
    positive_fraction,
    totals,
    variance_score,
)
from continual_learning.schema.earlier import current

# Relative and absolute.
SCORE_TOLERANCE = {"float32": (5e-5, 1e-5), "float64": (1e-9, 1e-11)}

# Quarters are exact in every precision, and common enough to give zeros, ties and equal units.
PREACTIVATIONS = arrays(np.float32, (6, 4), elements=st.integers(-8, 8).map(lambda i: i / 4))


compiled_plasticity = jax.jit(plasticity_metrics)


@jax.jit
def measure(z):
    h = jax.nn.relu(z)
    return plasticity_metrics({"hidden": h}, {"hidden": z}), (dormant_score(h), variance_score(h))


def assert_trees_close(actual, expected, rtol=1e-5, atol=1e-6):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol, atol), actual, expected)


class TestGolden:
    def test_scores_counts_and_ratios(self, golden, precision):
        num_layers = int(golden["n_layers"])
        features = {f"layer_{i}": golden[f"act_{i}"].astype(precision) for i in range(num_layers)}
        inputs = {f"layer_{i}": golden[f"pre_{i}"].astype(precision) for i in range(num_layers)}

        @jax.jit
        def run(features, inputs):
            return (
                plasticity_metrics(features, inputs, tau=golden["tau"], theta=golden["theta"]),
                {name: dormant_score(h) for name, h in features.items()},
                {name: positive_fraction(z) for name, z in inputs.items()},
            )

        metrics, scores, fractions = run(features, inputs)
        tolerance = SCORE_TOLERANCE[precision]
        for i, name in enumerate(features):
            assert scores[name].dtype == precision
            np.testing.assert_allclose(scores[name], golden[f"score_{i}"], *tolerance)
            np.testing.assert_allclose(
                fractions[name], golden[f"positive_fraction_{i}"], *tolerance
            )
        for ratio, counts in (
            ("dormant_ratio", "n_dormant"),
            ("linearised_ratio", "n_linearised"),
        ):
            found = metrics[current(ratio)]
            ratios = np.array([found[name] for name in features])
            np.testing.assert_allclose(ratios, golden[ratio], *tolerance)
            np.testing.assert_allclose(found["total"], golden[f"{ratio}_total"], *tolerance)
            np.testing.assert_array_equal(np.round(ratios * golden["n_units"]), golden[counts])


class TestKnownAnswers:
    def test_dormant(self):
        # Mean |activations| 2, 0 and 0.1 over their mean 0.7.
        h = jnp.array([[3.0, 0.0, -0.1], [-1.0, 0.0, 0.1]])
        np.testing.assert_allclose(dormant_score(h), [2 / 0.7, 0, 1 / 7], rtol=1e-6)
        np.testing.assert_allclose(dormant_ratio(h), 1 / 3, rtol=1e-6)
        np.testing.assert_allclose(dormant_ratio(h, tau=0.2), 2 / 3, rtol=1e-6)

    def test_dormant_inequality_is_strict(self):
        h = jnp.array([[0.0, 2.0]])
        assert dormant_ratio(h, tau=0.0) == 0
        assert dormant_ratio(h, tau=2.0) == 0.5
        assert dormant_ratio(h, tau=2.1) == 1

    def test_all_zero_layer(self):
        h = np.zeros((3, 2))
        np.testing.assert_array_equal(dormant_score(h), np.zeros(2))
        assert dormant_ratio(h) == 1
        assert low_variance_ratio(h) == 1
        assert linearized_ratio(h) == 0

    def test_layer_of_one_unit(self):
        h = jnp.array([[1.0], [3.0]])
        np.testing.assert_allclose(dormant_score(h), [1.0], rtol=1e-6)
        assert dormant_ratio(h) == 0

    def test_linearized_ignores_zero_and_size(self):
        z = jnp.array([[1e-6, 0.0, 5.0], [1e6, 9.0, -5.0]])
        np.testing.assert_array_equal(positive_fraction(z), [1, 0.5, 0.5])
        np.testing.assert_allclose(linearized_ratio(z), 1 / 3, rtol=1e-6)
        np.testing.assert_allclose(linearized_ratio(z, theta=0.4), 1, rtol=1e-6)

    @pytest.mark.parametrize(
        ("positive", "rows", "theta"), [(9, 10, 0.9), (27, 30, 0.9), (63, 90, 0.7), (7, 10, 0.7)]
    )
    def test_linearized_inequality_is_strict_when_compiled(self, positive, rows, theta, precision):
        z = -np.ones((rows, 2), precision)
        z[:positive] = 1
        ratio = jax.jit(lambda z: linearized_ratio(z, theta))
        assert ratio(z) == 0
        z[positive, 0] = 1
        assert ratio(z) == 0.5

    def test_low_variance(self):
        # Variances 1, 0.01 and 0 over their mean 0.3367; only the second depends on τ.
        h = jnp.array([[1.0, 0.1, 0.7], [-1.0, -0.1, 0.7]])
        np.testing.assert_allclose(variance_score(h), np.array([3, 0.03, 0]) / 1.01, rtol=1e-5)
        np.testing.assert_allclose(low_variance_ratio(h), 2 / 3, rtol=1e-6)
        np.testing.assert_allclose(low_variance_ratio(h, tau=0.02), 1 / 3, rtol=1e-6)

    def test_saturated_unit_has_low_variance_but_is_not_dormant(self):
        h = np.tanh([[9.0, 1.0], [10.0, -1.0], [11.0, 0.5]])
        assert dormant_ratio(h) == 0
        assert low_variance_ratio(h) == 0.5

    def test_large_constants_have_no_variance(self):
        np.testing.assert_array_equal(variance_score(jnp.full((3, 2), 7777.77)), np.zeros(2))

    def test_positions_count_like_samples(self):
        z = np.random.default_rng(0).normal(-0.5, 1, (2, 2, 1, 3))
        flat = z.reshape(4, 3)
        for score in (dormant_score, variance_score, positive_fraction):
            np.testing.assert_allclose(score(z), score(flat), rtol=1e-6)
        # Magnitudes are averaged, not values: this channel cancels over its positions.
        assert dormant_ratio(jnp.array([1.0, -1.0]).reshape(1, 2, 1)) == 0

    def test_total_weighs_units_not_layers(self):
        layers = {"narrow": np.array([[0.0, 1.0]]), "wide": np.ones((5, 6))}
        metrics = compiled_plasticity(layers, layers)
        assert metrics["dormant_ratio"] == {"total": 1 / 8, "narrow": 0.5, "wide": 0}
        assert metrics["linearized_ratio"] == {"total": 7 / 8, "narrow": 0.5, "wide": 1}

    def test_without_preactivations(self):
        metrics = jax.eval_shape(plasticity_metrics, {"hidden": np.ones((2, 3))})
        assert set(metrics) == {"dormant_ratio", "low_variance_ratio"}


class TestPrecision:
    @pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
    def test_half_precision_is_measured_in_float32(self, dtype):
        # The sums overflow float16; counting ones to 400 saturates at 256 in bfloat16.
        h = jnp.ones((400, 2), dtype) * jnp.array([[1024.0, 64.0]], dtype)
        assert dormant_score(h).dtype == jnp.float32
        np.testing.assert_allclose(dormant_score(h), np.array([1024, 64]) / 544, rtol=1e-6)
        np.testing.assert_array_equal(positive_fraction(h), [1, 1])
        assert linearized_ratio(h) == 1

    def test_integers_are_measured_in_float32(self):
        assert dormant_score(np.array([[1, 3]])).dtype == jnp.float32


class TestNotFinite:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_ratios_are_nan(self, value):
        h = np.ones((4, 3), np.float32)
        h[1, 2] = value
        layers = {"bad": h, "good": np.ones((4, 3), np.float32)}
        metrics = compiled_plasticity(layers, layers)
        for ratios in metrics.values():
            assert np.isnan(ratios["bad"])
            assert np.isnan(ratios["total"])
            assert np.isfinite(ratios["good"])

    def test_only_the_bad_unit_loses_its_positive_fraction(self):
        z = jnp.array([[1.0, jnp.nan], [-1.0, 1.0]])
        np.testing.assert_array_equal(positive_fraction(z), [0.5, np.nan])


class TestTransformations:
    def test_jit_and_vmap_change_nothing(self):
        z = {
            "conv": np.random.default_rng(0).normal(-0.8, 1, (3, 2, 2, 1, 3)),
            "dense": np.random.default_rng(1).normal(0.0, 1, (3, 4, 3)),
        }
        h = jax.tree.map(lambda x: np.maximum(x, 0), z)
        seeds = [jax.tree.map(lambda x, i=i: x[i], (h, z)) for i in range(3)]
        per_seed = [compiled_plasticity(*seed) for seed in seeds]
        expected = jax.tree.map(lambda *x: np.stack(x), *per_seed)
        assert_trees_close(jax.jit(jax.vmap(plasticity_metrics))(h, z), expected)
        assert_trees_close(per_seed[0], plasticity_metrics(*seeds[0]))

    def test_thresholds_can_be_swept(self):
        h = jnp.array([[0.1, 0.5, 2.4]])
        sweep = jax.vmap(
            lambda tau, theta: plasticity_metrics({"h": h}, {"h": h}, tau=tau, theta=theta)
        )
        metrics = jax.jit(sweep)(jnp.array([0.05, 0.2, 1.0]), jnp.array([0.5, 0.9, 1.0]))
        np.testing.assert_allclose(metrics["dormant_ratio"]["total"], [0, 1 / 3, 2 / 3], rtol=1e-6)
        np.testing.assert_array_equal(metrics["linearized_ratio"]["total"], [1, 1, 0])


class TestProperties:
    @settings(deadline=None)
    @given(PREACTIVATIONS)
    def test_ratios_are_shares_of_units(self, z):
        metrics, _ = measure(z)
        for ratios in metrics.values():
            assert ratios["total"] == ratios["hidden"]
            assert ratios["total"] in (0, 0.25, 0.5, 0.75, 1)

    @settings(deadline=None)
    @given(PREACTIVATIONS, st.permutations(range(6)), st.permutations(range(4)))
    def test_order_of_samples_and_units_does_not_matter(self, z, samples, units):
        metrics, scores = measure(z)
        permuted_metrics, permuted_scores = measure(z[samples][:, units])
        for score, permuted in zip(scores, permuted_scores, strict=True):
            np.testing.assert_allclose(permuted, score[np.array(units)], rtol=1e-5, atol=1e-6)
            # At the threshold itself rounding decides, and rounding depends on the order.
            assume(np.abs(score - 0.1).min() > 1e-4)
        assert permuted_metrics == metrics

    @settings(deadline=None)
    @given(PREACTIVATIONS, st.floats(1e-2, 1e3))
    def test_scale_of_a_layer_does_not_matter(self, z, scale):
        metrics, (score, _) = measure(z)
        assume(np.abs(score - 0.1).min() > 1e-4)
        scaled, _ = measure(z * np.float32(scale))
        assert scaled["dormant_ratio"] == metrics["dormant_ratio"]
        assert scaled["linearized_ratio"] == metrics["linearized_ratio"]


class TestCombined:
    def test_is_the_mean(self):
        actor = {"dormant_ratio": {"total": jnp.array(0.5), "a": jnp.array(0.0)}}
        critic = {"dormant_ratio": {"total": jnp.array(0.25), "a": jnp.array(1.0)}}
        assert combined(actor, critic) == {"dormant_ratio": {"total": 0.375, "a": 0.5}}

    def test_totals_of_networks_with_different_layers(self):
        actor = {"dormant_ratio": {"total": 0.5, "a": 0.5}, "srank": {"total": 1.0, "a": 1.0}}
        critic = {"dormant_ratio": {"total": 0.0, "b": 0.0}, "srank": {"total": 2.0, "b": 2.0}}
        assert combined(totals(actor), totals(critic)) == {"dormant_ratio": 0.25, "srank": 1.5}
        with pytest.raises(ValueError, match=r"different structures.*totals\(actor\)"):
            combined(actor, critic)


class TestErrors:
    h = np.ones((2, 3), np.float32)

    def test_preactivations_of_other_layers(self):
        with pytest.raises(ValueError, match=r"layers \['b'\], but features has \['a'\]"):
            plasticity_metrics({"a": self.h}, {"b": self.h})

    def test_preactivations_of_another_shape(self):
        with pytest.raises(ValueError, match=r"preactivations\['a'\] has shape \(2, 4\)"):
            plasticity_metrics({"a": self.h}, {"a": np.ones((2, 4))})

    def test_bad_preactivations_are_named(self):
        with pytest.raises(TypeError, match="preactivations is a ndarray"):
            plasticity_metrics({"a": self.h}, self.h)  # pyright: ignore[reportArgumentType]

    @pytest.mark.parametrize(
        ("function", "argument", "value"),
        [
            (dormant_ratio, "tau", -0.1),
            (low_variance_ratio, "tau", float("nan")),
            (linearized_ratio, "theta", 1.5),
            (linearized_ratio, "theta", np.float32(-1)),
        ],
    )
    def test_thresholds_out_of_range(self, function, argument, value):
        with pytest.raises(ValueError, match=f"{argument} is {value}, but must be between 0 and"):
            function(self.h, value)
