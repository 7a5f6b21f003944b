"""A convolution that stays fast where many networks run side by side."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp


class Conv(nn.Module):
    """A convolution of stride 1 that keeps height and width: `nn.Conv` with padding "SAME".

    Attributes:
      channels: number of output channels.
      size: height and width of the kernel; odd.
      kernel_init: initializer of the kernel [size, size, in, out]; the bias starts at 0.
      plain: whether it is an ordinary convolution, through which per-sample scores can be
        computed, but which is slow where many networks run side by side.
    """

    channels: int
    size: int
    kernel_init: nn.initializers.Initializer
    plain: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the convolution: […, height, width, in] -> […, height, width, out]."""
        shape = (self.size, self.size, x.shape[-1], self.channels)
        kernel = self.param("kernel", self.kernel_init, shape)
        bias = self.param("bias", nn.initializers.zeros, (self.channels,))
        convolve = _ordinary if self.plain else convolution
        out = convolve(x.reshape(-1, *x.shape[-3:]), kernel, bias)
        return out.reshape(*x.shape[:-1], self.channels)


def _ordinary(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    out = jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return out + jnp.broadcast_to(bias, out.shape)


_convolution = jax.custom_batching.custom_vmap(_ordinary)


@_convolution.def_vmap
def _(axis_size, in_batched, *args):
    axes = tuple(0 if batched else None for batched in in_batched)
    return jax.vmap(banded, axes, axis_size=axis_size)(*args), True


@jax.custom_vjp
def convolution(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Return the convolution of images with a kernel, plus a bias.

    Under a `vmap` over kernels an ordinary convolution becomes a grouped one, which is slow; this
    one becomes `banded`. Its gradients are always those of `banded`, in reverse mode only.

    Args:
      x: [batch, height, width, in].
      kernel: [size, size, in, out], of odd size.
      bias: [out].

    Returns:
      [batch, height, width, out].
    """
    return _convolution(x, kernel, bias)


convolution.defvjp(lambda *args: jax.vjp(banded, *args), lambda pullback, slope: pullback(slope))


def banded(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Return `convolution` as one product of rows of the image with a matrix that holds the kernel.

    A row of the result is the product of `size` rows of the image, [size · width · in], and a
    matrix [size · width · in, width · out], in which each output column has the kernel at its
    neighbors and zeros elsewhere. For small images this takes few more multiplications than needed,
    suits matrix units, and uses a third of the memory of patches of every pixel.

    The bias is a further row of the matrix, which is multiplied by 1. An activation can therefore
    follow the product directly, and one product gives the gradients of kernel and bias; a GPU
    rounds both like factors of its products. The result lies in memory as [width · out, height ·
    batch], one network after the other where some share the images.

    Args:
      x: [batch, height, width, in].
      kernel: [size, size, in, out], of odd size.
      bias: [out].

    Returns:
      [batch, height, width, out].
    """
    batch, height, width, channels = x.shape
    size, margin = kernel.shape[0], kernel.shape[0] // 2
    rows = jnp.pad(x.reshape(batch, height, -1), ((0, 0), (margin, margin), (0, 0)))
    rows = jnp.concatenate([rows[:, i : i + height] for i in range(size)], axis=-1)
    rows = jnp.swapaxes(rows, 0, 1).reshape(height * batch, -1)
    band = _band(kernel, width).reshape(size * width * channels, -1)
    # Matrix units are fast for lengths that are multiples of 4.
    one = jnp.zeros(4 - len(band) % 4).at[0].set(1)
    rows = jnp.concatenate([rows, jnp.broadcast_to(one, (len(rows), len(one)))], axis=1)
    band = jnp.concatenate([band, jnp.outer(one, jnp.tile(bias, width))])
    out = jax.lax.dot_general(band, rows, (((0,), (1,)), ((), ())))
    return out.reshape(width, -1, height, batch).transpose(3, 2, 0, 1)


def _band(kernel: jax.Array, width: int) -> jax.Array:
    """Return [row, column read, in, column written, out], the kernel by difference of columns."""
    size, margin = kernel.shape[0], kernel.shape[0] // 2
    # Every line of the matrix is shifted by one place against the line above: the kernel and the
    # zeros behind it are repeated and cut into lines that are one place shorter than this period.
    period = width + size
    line = jnp.pad(jnp.moveaxis(kernel, 1, 0), ((0, period - size), (0, 0), (0, 0), (0, 0)))
    lines = jnp.broadcast_to(line, (width, *line.shape)).reshape(-1, *line.shape[1:])
    cut = lines[: width * (period - 1)].reshape(width, period - 1, *line.shape[1:])
    return cut[:, margin : margin + width].transpose(2, 1, 3, 0, 4)
