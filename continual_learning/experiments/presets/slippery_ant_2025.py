"""SlipperyAnt as the trainer of August and September 2025 ran it, which made the paper's figure.

The released code differs from that trainer in three ways. The trainer clipped sampled actions to ±5
but stored the log density of the unclipped ones; it clipped training rewards to [−5, 10]; and, as
in the release, friction stayed 1 in every task. Methods have the values of the paper; CPR draws
fresh weights from He's uniform distribution, as it did there.
"""

import dataclasses

from continual_learning.experiments.presets import slippery_ant

SPEC = dataclasses.replace(
    slippery_ant.SPEC,
    name="slippery_ant_2025",
    title="SlipperyAnt as the paper's trainer of 2025 ran it: friction 1, log densities that are "
    "not those of the applied actions",
    physics="generalized",
    friction="as_released",
    reward_ceiling=10.0,
    action_limit=5.0,
    log_prob_of="sampled",
    methods={
        name: method.override(init="he_uniform") if name == "cpr" else method
        for name, method in slippery_ant.SPEC.methods.items()
    },
)
