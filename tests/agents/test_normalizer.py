import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.common.normalizer import MIN_STD, Normalizer


def test_nothing_seen_changes_nothing():
    x = jnp.array([[3.0, -5.0]])
    np.testing.assert_array_equal(Normalizer.start(2).normalize(x), x)


def test_by_hand():
    seen = Normalizer.start(1).update(jnp.array([[1.0], [3.0]])).update(jnp.array([[8.0]]))
    assert (seen.samples, seen.mean[0], seen.summed_variance[0]) == (3, 4, 9 + 1 + 16)
    found = seen.normalize(jnp.array([[[4.0]], [[6.0]]]))
    np.testing.assert_allclose(found[:, 0, 0], [0, 2 / np.sqrt(26 / 3)], rtol=1e-6)


def test_batches_of_any_size_as_all_at_once():
    x = np.random.default_rng(0).normal([1e3, 0.0], [0.1, 5.0], size=(100, 2)).astype(np.float32)
    seen = Normalizer.start(2)
    for batch in np.split(x, [1, 7, 50]):
        seen = seen.update(jnp.asarray(batch))
    np.testing.assert_allclose(seen.mean, x.mean(0, dtype=np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(seen.std, x.std(0, dtype=np.float64), rtol=1e-3)


def test_clip_and_constant_entries():
    seen = Normalizer.start(2).update(jnp.array([[0.0, 7.0], [2.0, 7.0]]))
    np.testing.assert_allclose(seen.std, [1, MIN_STD])
    np.testing.assert_array_equal(seen.normalize(jnp.array([21.0, 7.0])), [20, 0])
    np.testing.assert_array_equal(seen.normalize(jnp.array([21.0, 7.0]), clip=10.0), [10, 0])


def test_four_hundred_million_samples():
    """A long run has been; 64 rollouts more, of another mean, against float64."""
    before, n = 4e8 // 2**16 * 2**16, 196_608
    old_mean, old_variance = np.array([100.0, 1.0]), np.array([1.0, 4.0])
    batch = np.tile([[102.0, -3.0], [104.0, 3.0]], (n // 2, 1))
    seen = Normalizer(
        jnp.float32(before),
        jnp.asarray(old_mean, jnp.float32),
        jnp.asarray(before * old_variance, jnp.float32),
    )
    seen = jax.lax.fori_loop(0, 64, lambda _, s: s.update(jnp.asarray(batch, jnp.float32)), seen)

    total = before + 64 * n
    means, weights = np.stack([old_mean, batch.mean(0)]), np.array([[before], [64 * n]]) / total
    mean = (weights * means).sum(0)
    within = (weights * np.stack([old_variance, batch.var(0)])).sum(0)
    std = np.sqrt(within + (weights * (means - mean[None]) ** 2).sum(0))
    assert seen.samples == total
    np.testing.assert_allclose(seen.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(seen.std, std, rtol=1e-5)
