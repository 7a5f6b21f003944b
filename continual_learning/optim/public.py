"""The public names of `continual_learning.optim`, which imports them when one is used."""

from continual_learning.optim.attach import ResetState, attach_reset_method
from continual_learning.optim.churn import reduce_churn
from continual_learning.optim.links import Kernel, Layer, Link
from continual_learning.optim.log import BIN_WIDTH, BINS, ResetLog
from continual_learning.optim.method import (
    Amount,
    ResetMethod,
    Step,
    choice,
    periodic,
    reset_method,
)
from continual_learning.optim.methods.cbp import CBP
from continual_learning.optim.methods.cpr import CPR
from continual_learning.optim.methods.no_reset import NoReset
from continual_learning.optim.methods.redo import ReDo
from continual_learning.optim.methods.regrama import ReGraMa
from continual_learning.optim.methods.shrink_perturb import ShrinkAndPerturb
from continual_learning.optim.moments import register_moments
from continual_learning.optim.registry import register, registered
from continual_learning.optim.sequential import recognize_units, sequential_units
from continual_learning.optim.tracing.trace import trace_units
from continual_learning.optim.units import UnitGraph

__all__ = [
    "BINS",
    "BIN_WIDTH",
    "CBP",
    "CPR",
    "Amount",
    "Kernel",
    "Layer",
    "Link",
    "NoReset",
    "ReDo",
    "ReGraMa",
    "ResetLog",
    "ResetMethod",
    "ResetState",
    "ShrinkAndPerturb",
    "Step",
    "UnitGraph",
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
