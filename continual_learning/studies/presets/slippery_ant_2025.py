"""SlipperyAnt as the trainer of August and September 2025 ran it, which made the paper's figure.

That trainer differs from the released code in two ways: it clipped sampled actions to ±5 but stored
the log density of the unclipped ones, and it clipped training rewards to [−5, 10]. As in the
release, friction stayed 1 in every task. Methods have the values of the paper; CPR draws fresh
weights from He's uniform distribution, as it did there.
"""

from continual_learning.studies.presets import slippery_ant

SPEC = slippery_ant.SPEC.override(
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
