"""Delayed Ant: observations arrive and actions act later, by delays that every step draws.

As in the authors' code (`experiments/td_ant.py` and `envs/brax_delay_wrapper.py` on branch
`time-delays` of their repository): a task draws an interval within 0 to 8 for observations and one
for actions, and the agent sees the last nine actions and the delays of the step. Friction is 1,
training rewards are clipped to [−5, 10] and actions to ±5 before they are applied and stored. CPR
draws fresh weights from He's uniform distribution. All other values are those of SlipperyAnt.
"""

from continual_learning.studies.experiment import MethodSpec
from continual_learning.studies.presets import slippery_ant

METHODS = slippery_ant.methods(
    1e-3,
    cpr={"max_reset": 0.0015, "decay": 0.99, "every": 1000, "init": "he_uniform"},
    cbp={"replacement_rate": 3e-3, "decay": 0.99, "maturity": 100},
    redo={"threshold": 0.1, "every": 1000},
    regrama={"threshold": 0.2, "every": 1000},
    shrink_perturb={"shrink": 1e-3, "perturb": 5e-3, "every": 1000, "kernels_only": True},
)
METHODS["muon"] = MethodSpec(optimizer="muon", learning_rate=1e-4, eps_root=1e-8, clip=0.5)

SPEC = slippery_ant.SPEC.override(
    name="delayed_ant",
    title="Ant with delays from 0 to 8 that every step draws, from new intervals every 20M steps",
    changes="observation_delay = interval(0, 8); action_delay = interval(0, 8)",
    longest_observation_delay=8,
    longest_action_delay=8,
    told_delays="one_hot",
    action_limit=5.0,
    reward_ceiling=10.0,
    methods=METHODS,
)
