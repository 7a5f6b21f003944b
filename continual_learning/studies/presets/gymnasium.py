"""Environments of Gymnasium, one after the other (ours); `--task` names them.

The methods are those of `mt1`.
"""

from continual_learning.envs.catalog.gymnasium import GymnasiumTasks
from continual_learning.studies.presets import mt1, smoke

SPEC = mt1.SPEC.override(
    name="gymnasium",
    title="SAC on environments of Gymnasium, your own registered ones too (ours)",
    stream=GymnasiumTasks(sequence=("Pendulum-v1",)),
    vector_steps_per_task=20_000,
    capacity=200_000,
    learning_starts=1000,
    eval_every=0,
    seeds=5,
    scales={
        "smoke": {
            "compilation": "quick",
            "workers": 1,
            "vector_steps_per_task": 500,
            "rows_per_chunk": 1,
            "environments": 2,
            "learning_starts": 980,
            "capacity": 1000,
            "seeds": 1,
            **smoke.RESETS,
        },
        "short": {"vector_steps_per_task": 5000, "capacity": 50_000, "seeds": 2},
    },
)
