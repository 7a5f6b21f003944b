"""SlipperyAnt with SAC in place of PPO, which is not in the paper.

Its methods are those of SlipperyAnt with the learning rate of Continual MinAtar's SAC.
"""

from continual_learning.agents.sac.config import SACConfig
from continual_learning.networks.catalog import MLPs
from continual_learning.studies.presets import slippery_ant, smoke

SPEC = slippery_ant.SPEC.override(
    name="slippery_ant_sac",
    title="SlipperyAnt with SAC, new friction every 2M steps (ours)",
    tasks=10,
    seeds=5,
    agent=SACConfig(
        environments=64,
        vector_steps_per_task=32_000,
        steps_per_row=500,
        rows_per_chunk=4,
        replay_ratio=16,
    ),
    networks=MLPs(hidden=(256, 256)),
    methods={
        name: method.override(learning_rate=3e-4)
        for name, method in slippery_ant.SPEC.methods.items()
    },
    scales={
        "smoke": {
            "compilation": "quick",
            "tasks": 2,
            "environments": 4,
            "vector_steps_per_task": 40,
            "steps_per_row": 20,
            "rows_per_chunk": 2,
            "learning_starts": 40,
            "capacity": 200,
            "probe": 32,
            "seeds": 2,
            **smoke.RESETS,
        },
        "short": {"tasks": 3, "vector_steps_per_task": 8_000, "seeds": 2},
    },
)
