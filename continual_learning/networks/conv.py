"""A convolution that stays fast where many networks run side by side."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp


class Conv(nn.Module):
    """A convolution of stride 1 that keeps height and width: `nn.Conv` with padding "SAME".

    Attributes:
      channels: how many come out.
      size: height and width of the kernel; odd.
      kernel_init: initialiser of the kernel [size, size, in, out]; the bias starts at 0.
      plain: whether it is an ordinary convolution, into whose derivative per-sample scores can
        look; slow where many networks run side by side.
    """

    channels: int
    size: int
    kernel_init: nn.initializers.Initializer
    plain: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[…, height, width, in] -> […, height, width, out]."""
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
    """The convolution of images with a kernel, and a bias.

    Under a `vmap` over kernels an ordinary one becomes a grouped convolution, for which there are
    no fast programs; this becomes `banded`. Gradients are those of `banded`, always, and only in
    reverse mode.

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
    """`convolution` as one product of rows of the image with a matrix that holds the kernel.

    A row of the result comes of `size` rows of the image, [size · width · in], by a matrix
    [size · width · in, width · out] in which each output column reads its neighbours and zeros
    elsewhere. For small images that is few more multiplications than needed, in a shape that
    matrix units like, and a third of the memory that patches of every pixel take.

    The bias is a further line of the matrix, which reads a 1: so nothing stands between the product
    and an activation, and the bias's gradient comes with the kernel's; on a GPU both are rounded as
    factors of its products are. The result lies in memory as [width · out, height · batch], one
    network after the other where some share the images.
    """
    batch, height, width, channels = x.shape
    size, margin = kernel.shape[0], kernel.shape[0] // 2
    rows = jnp.pad(x.reshape(batch, height, -1), ((0, 0), (margin, margin), (0, 0)))
    rows = jnp.concatenate([rows[:, i : i + height] for i in range(size)], axis=-1)
    rows = jnp.swapaxes(rows, 0, 1).reshape(height * batch, -1)
    band = _band(kernel, width).reshape(size * width * channels, -1)
    # Matrix units want lengths that are multiples of 4.
    one = jnp.zeros(4 - len(band) % 4).at[0].set(1)
    rows = jnp.concatenate([rows, jnp.broadcast_to(one, (len(rows), len(one)))], axis=1)
    band = jnp.concatenate([band, jnp.outer(one, jnp.tile(bias, width))])
    out = jax.lax.dot_general(band, rows, (((0,), (1,)), ((), ())))
    return out.reshape(width, -1, height, batch).transpose(3, 2, 0, 1)


def _band(kernel: jax.Array, width: int) -> jax.Array:
    """[row, column read, in, column written, out]: the kernel at the difference of the columns."""
    size, margin = kernel.shape[0], kernel.shape[0] // 2
    # Every line of a matrix one place further than the one above: the kernel and zeros behind it,
    # over and over, cut into lines that are one shorter than that.
    period = width + size
    line = jnp.pad(jnp.moveaxis(kernel, 1, 0), ((0, period - size), (0, 0), (0, 0), (0, 0)))
    lines = jnp.broadcast_to(line, (width, *line.shape)).reshape(-1, *line.shape[1:])
    cut = lines[: width * (period - 1)].reshape(width, period - 1, *line.shape[1:])
    return cut[:, margin : margin + width].transpose(2, 1, 3, 0, 4)
