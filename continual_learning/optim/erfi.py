"""The imaginary error function."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def erfi(x: jax.Array) -> jax.Array:
    """Return the imaginary error function of real numbers, exp(x²) times the imaginary part of w.

    The series for w is that of the authors' complex function (Weideman, SIAM Journal on Numerical
    Analysis 31(5), 1994). For real x, Z = (L + ix)/(L − ix) lies on the unit circle, so that the
    imaginary parts of its powers are sines.
    """
    scale, coefficients = weideman()
    column = (-1, *[1] * x.ndim)
    orders = jnp.arange(1, len(coefficients) + 1, dtype=x.dtype).reshape(column)
    sines = jnp.sin(orders * (2 * jnp.arctan(x / scale))[None])
    series = jnp.sum(jnp.asarray(coefficients, x.dtype).reshape(column) * sines, axis=0)
    return jnp.exp(x**2) * (2 * series + x / np.sqrt(np.pi)) / (scale**2 + x**2)


def weideman(terms: int = 48) -> tuple[float, np.ndarray]:
    """Return the scale L and the coefficients [terms] of the series, which are constants."""
    half = 2 * terms
    scale = float(np.sqrt(terms / np.sqrt(2)))
    t = scale * np.tan(np.arange(1 - half, half) * np.pi / (2 * half))
    # The value at infinity is 0. The authors' code leaves it out, and so is off by up to 1 %.
    f = np.concatenate([[0], np.exp(-(t**2)) * (scale**2 + t**2)])
    return scale, np.real(np.fft.fft(np.fft.fftshift(f)))[1 : terms + 1] / (2 * half)
