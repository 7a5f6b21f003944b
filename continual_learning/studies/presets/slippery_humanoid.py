"""SlipperyHumanoid: 20 tasks of 20M steps on ground whose friction changes.

Every method has the values of the paper. Values that the paper omits come from its published
experiment files: rewards are multiplied by 0.1, observations are normalized, and a task is 62
rollouts of 327,680 steps.
"""

from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.envs.catalog.robot import RobotTasks
from continual_learning.networks.catalog import ActorCriticMLPs
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.presets import smoke
from continual_learning.studies.presets.slippery_ant import methods

SPEC = Experiment(
    name="slippery_humanoid",
    title="SlipperyHumanoid: PPO on a humanoid, new friction every 20M steps, as in the paper",
    tasks=20,
    seeds=15,
    stream=RobotTasks(
        robot="humanoid", physics="unrolled", changes="friction = log_uniform(0.02, 2.0)"
    ),
    agent=PPOConfig(
        iterations_per_task=62,
        iterations_per_chunk=2,
        rollout=160,
        normalize_observations=True,
        reward_scale=0.1,
        reward_floor=-5.0,
    ),
    networks=ActorCriticMLPs(policy_hidden=(128, 128, 128, 128)),
    methods=methods(
        3e-4,
        cpr={"max_reset": 0.05, "decay": 0.99, "every": 1000},
        cbp={"replacement_rate": 2.5e-3, "decay": 0.99, "maturity": 100},
        redo={"threshold": 0.5, "every": 100},
        regrama={"threshold": 0.15, "every": 100},
        shrink_perturb={"shrink": 1e-3, "perturb": 5e-3, "every": 1000, "kernels_only": True},
    ),
    scales={
        "smoke": {
            "compilation": "quick",
            "tasks": 2,
            "iterations_per_task": 2,
            "iterations_per_chunk": 1,
            "environments": 8,
            "seeds": 2,
            **smoke.RESETS,
        },
        "short": {"tasks": 5, "iterations_per_task": 20, "environments": 2048, "seeds": 4},
    },
)
