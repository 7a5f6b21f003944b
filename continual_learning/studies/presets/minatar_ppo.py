"""Continual MinAtar with PPO in place of SAC, which is not in the paper."""

from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.studies.presets import continual_minatar, smoke

SPEC = continual_minatar.SPEC.override(
    name="minatar_ppo",
    title="Continual MinAtar with PPO, 1.5M steps each (ours)",
    agent=PPOConfig(
        environments=64,
        iterations_per_task=180,
        iterations_per_chunk=6,
        rollout=128,
        epochs=4,
        minibatches=8,
        discount=0.99,
        entropy_coefficient=0.01,
        truncation="bootstrap",
    ),
    scales={
        "smoke": {
            "compilation": "quick",
            "tasks": 2,
            "iterations_per_task": 2,
            "iterations_per_chunk": 1,
            "environments": 2,
            "probe": 32,
            "seeds": 2,
            **smoke.RESETS,
        },
        "short": {"iterations_per_task": 30, "seeds": 2},
    },
)
