"""The public names of `continual_learning.optim`, which imports them when one is used."""

from continual_learning.optim.attach import ResetState, attach_reset_method
from continual_learning.optim.churn import reduce_churn
from continual_learning.optim.links import Kernel, Layer, Link
from continual_learning.optim.log import BIN_WIDTH, BINS, ResetLog
from continual_learning.optim.method import (
    Amount,
    Initial,
    ResetMethod,
    Step,
    choice,
    periodic,
    reset_method,
)
from continual_learning.optim.methods.cbp import CBP
from continual_learning.optim.methods.cpr import CPR
from continual_learning.optim.methods.dash import DASH
from continual_learning.optim.methods.fire import FIRE
from continual_learning.optim.methods.l2_init import L2Init
from continual_learning.optim.methods.layer_reset import FullReset, LayerReset
from continual_learning.optim.methods.nap import NaP
from continual_learning.optim.methods.no_reset import NoReset
from continual_learning.optim.methods.parseval import Parseval
from continual_learning.optim.methods.redo import ReDo
from continual_learning.optim.methods.regrama import ReGraMa
from continual_learning.optim.methods.shrink_perturb import ShrinkAndPerturb
from continual_learning.optim.methods.snr import SNR
from continual_learning.optim.methods.spectral import SpectralRegularization
from continual_learning.optim.methods.trac import TRAC
from continual_learning.optim.methods.upgd import UPGD
from continual_learning.optim.methods.weight_clipping import WeightClipping
from continual_learning.optim.moments import register_moments
from continual_learning.optim.occasions import Occasional
from continual_learning.optim.registry import register, registered
from continual_learning.optim.sequential import recognize_units, sequential_units
from continual_learning.optim.tracing.trace import trace_units
from continual_learning.optim.units import UnitGraph

__all__ = [
    "BINS",
    "BIN_WIDTH",
    "CBP",
    "CPR",
    "DASH",
    "FIRE",
    "SNR",
    "TRAC",
    "UPGD",
    "Amount",
    "FullReset",
    "Initial",
    "Kernel",
    "L2Init",
    "Layer",
    "LayerReset",
    "Link",
    "NaP",
    "NoReset",
    "Occasional",
    "Parseval",
    "ReDo",
    "ReGraMa",
    "ResetLog",
    "ResetMethod",
    "ResetState",
    "ShrinkAndPerturb",
    "SpectralRegularization",
    "Step",
    "UnitGraph",
    "WeightClipping",
    "attach_reset_method",
    "choice",
    "periodic",
    "recognize_units",
    "reduce_churn",
    "register",
    "register_moments",
    "registered",
    "reset_method",
    "sequential_units",
    "trace_units",
]
