"""Continual learning without plasticity loss: reset methods as Optax transformations."""

from typing import TYPE_CHECKING

from continual_learning import installation, lazy

if TYPE_CHECKING:
    from continual_learning.analysis.loading import load as load
    from continual_learning.optim.attach import attach_reset_method as attach_reset_method
    from continual_learning.optim.methods.cbp import CBP as CBP
    from continual_learning.optim.methods.cpr import CPR as CPR
    from continual_learning.optim.methods.redo import ReDo as ReDo
    from continual_learning.optim.methods.regrama import ReGraMa as ReGraMa
    from continual_learning.optim.methods.shrink_perturb import ShrinkAndPerturb as ShrinkAndPerturb
    from continual_learning.optim.tracing.trace import trace_units as trace_units
    from continual_learning.studies.experiment import Experiment as Experiment
    from continual_learning.studies.launch import resume as resume
    from continual_learning.studies.launch import run as run
    from continual_learning.studies.options import RunOptions as RunOptions

__version__ = installation.VERSION

# By module, so that optimizers need nothing that studies do.
__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "continual_learning.analysis": ["load"],
        "continual_learning.optim": [
            "CBP",
            "CPR",
            "ReDo",
            "ReGraMa",
            "ShrinkAndPerturb",
            "attach_reset_method",
            "trace_units",
        ],
        "continual_learning.studies.experiment": ["Experiment"],
        "continual_learning.studies.launch": ["resume", "run"],
        "continual_learning.studies.options": ["RunOptions"],
    },
)
