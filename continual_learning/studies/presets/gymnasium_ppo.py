"""PPO on environments of Gymnasium; `--task` names them."""

from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.studies.presets import gymnasium, smoke

SPEC = gymnasium.SPEC.override(
    name="gymnasium_ppo",
    title="PPO on environments of Gymnasium, your own registered ones too (ours)",
    agent=PPOConfig(
        environments=8,
        iterations_per_task=100,
        iterations_per_chunk=5,
        rollout=128,
        epochs=10,
        minibatches=8,
        discount=0.99,
        truncation="bootstrap",
    ),
    scales={
        "smoke": {
            "compilation": "quick",
            "workers": 1,
            "iterations_per_task": 2,
            "iterations_per_chunk": 1,
            "environments": 2,
            "probe": 32,
            "seeds": 1,
            **smoke.RESETS,
        },
        "short": {"iterations_per_task": 20, "iterations_per_chunk": 2, "seeds": 2},
    },
)
