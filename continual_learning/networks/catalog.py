"""The networks that an experiment can name, as descriptions that need no JAX."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

from continual_learning.kinds import Registry
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import Factor, field
from continual_learning.schema.names import Activation, Init

if TYPE_CHECKING:
    import flax.linen as nn

Role = Literal["policy", "critic", "classifier"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Networks(Factor):
    """A description of an agent's networks.

    For networks of your own, write a subclass with a `kind`, fields and `build`, and register it:
    `NETWORKS.register(MyNetworks)`.
    """

    init: Init = field("he_uniform", help="how kernels are drawn, first and by resets")
    layer_norm: bool = field(
        False, help="a LayerNorm before the activation of every hidden dense layer"
    )

    @property
    def fresh_init(self) -> str:
        """The initializer by which resets draw fresh kernels, unless a method names another."""
        return self.init

    def build(
        self,
        role: Role,
        outputs: int,
        *,
        image: tuple[int, int, int] | None = None,
        sample_scores: bool = False,
    ) -> nn.Module:
        """Return a network that maps [batch, features] to [batch, outputs].

        Args:
          role: the purpose of the network.
          outputs: width of its output layer, which is called `output`.
          image: (height, width, channels) if its features are a flattened board.
          sample_scores: whether gradients of single samples will be computed through it.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Perceptrons(Networks):
    """The fields that all descriptions of multi-layer perceptrons share."""

    activation: Activation = field("relu", help="nonlinearity of the hidden layers")
    fourier: int = field(
        0,
        most=bounds.UNITS,
        help="number of learned Fourier features per input, beside the inputs; 0 for none",
    )
    fourier_scale: float = field(
        0.01, positive=True, help="standard deviation of the initial kernel of Fourier features"
    )

    @property
    def fresh_init(self) -> str:
        """The initializer by which resets draw fresh kernels, unless a method names another.

        The kernel of Fourier features has a scale of its own, which `init` does not know.
        """
        return "as_initialized" if self.fourier else self.init

    def _made(self, hidden: tuple[int, ...], outputs: int) -> nn.Module:
        from continual_learning.networks.mlp import MLP

        return MLP(
            hidden,
            outputs,
            self.activation,
            self.init,
            self.layer_norm,
            self.fourier,
            self.fourier_scale,
        )

    def _check(self) -> None:
        if self.fourier < 0:
            raise StudyError(f"fourier must be at least 0, got {self.fourier}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MLPs(Perceptrons):
    """Multi-layer perceptrons, all of the same sizes."""

    kind: ClassVar[str] = "mlp"

    hidden: tuple[int, ...] = field(
        (256, 256, 256), positive=True, most=bounds.UNITS, help="units of the hidden layers"
    )

    def build(
        self,
        role: Role,
        outputs: int,
        *,
        image: tuple[int, int, int] | None = None,
        sample_scores: bool = False,
    ) -> nn.Module:
        """Return a perceptron."""
        return self._made(self.hidden, outputs)

    def _check(self) -> None:
        super()._check()
        bounds.check_layers("hidden", self.hidden)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCriticMLPs(Perceptrons):
    """Multi-layer perceptrons, with other sizes for the policy than for critics."""

    kind: ClassVar[str] = "actor_critic"

    policy_hidden: tuple[int, ...] = field(
        (32, 32, 32, 32), positive=True, most=bounds.UNITS, help="policy's units"
    )
    value_hidden: tuple[int, ...] = field(
        (256, 256, 256, 256, 256), positive=True, most=bounds.UNITS, help="value network's units"
    )
    activation: Activation = field("swish", help="nonlinearity of the hidden layers")
    init: Init = field("lecun_normal", help="how kernels are drawn, first and by resets")

    def build(
        self,
        role: Role,
        outputs: int,
        *,
        image: tuple[int, int, int] | None = None,
        sample_scores: bool = False,
    ) -> nn.Module:
        """Return a perceptron of the sizes for its role."""
        return self._made(self.policy_hidden if role == "policy" else self.value_hidden, outputs)

    def _check(self) -> None:
        super()._check()
        for name in ("policy_hidden", "value_hidden"):
            bounds.check_layers(name, getattr(self, name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class CNNs(Networks):
    """Convolutions, then dense layers, for boards."""

    kind: ClassVar[str] = "cnn"

    channels: tuple[int, ...] = field(
        (16,), positive=True, most=bounds.UNITS, help="channels of the 3×3 convolutions"
    )
    hidden: tuple[int, ...] = field(
        (128,), positive=True, most=bounds.UNITS, help="units of the hidden layers"
    )
    activation: Activation = field("relu", help="nonlinearity of the hidden layers")

    def build(
        self,
        role: Role,
        outputs: int,
        *,
        image: tuple[int, int, int] | None = None,
        sample_scores: bool = False,
    ) -> nn.Module:
        """Return a convolutional network."""
        from continual_learning.networks.cnn import CNN

        if image is None:
            raise StudyError(
                "networks: convolutions (cnn) need observations that are boards, such as those of "
                "MinAtar's games; choose mlp or actor_critic."
            )
        return CNN(
            image,
            self.channels,
            self.hidden,
            outputs,
            activation=self.activation,
            kernel_init=self.init,
            layer_norm=self.layer_norm,
            plain=sample_scores,
        )

    def _check(self) -> None:
        if not self.channels:
            raise StudyError("channels must name the size of at least one convolution.")
        if self.hidden:  # there may be convolutions alone
            bounds.check_layers("hidden", self.hidden)


NETWORKS: Registry[Networks] = Registry(
    "networks",
    Networks,
    {each.kind: f"{__name__}:{each.__name__}" for each in (MLPs, ActorCriticMLPs, CNNs)},
)
"""The kinds of networks, by the names that files have for them."""
