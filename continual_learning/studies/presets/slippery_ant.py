"""SlipperyAnt: 20 tasks of 20M steps, friction log-uniform in [0.02, 2], drawn for every task.

Every method has the values of the paper. Values that the paper omits come from its published
experiment files: the global norm of gradients is clipped to 0.5, training rewards are at least −5,
and a task is 102 rollouts of 196,608 steps, since 20M is no multiple of them.
"""

from typing import Any

from continual_learning.agents.ppo.config import PPOConfig
from continual_learning.envs.catalog.robot import RobotTasks
from continual_learning.networks.catalog import ActorCriticMLPs
from continual_learning.studies.experiment import Experiment, MethodSpec
from continual_learning.studies.presets import smoke


def methods(learning_rate: float, **resets: dict[str, Any]) -> dict[str, MethodSpec]:
    """Return Adam alone and with every method of `resets` ({method: options})."""
    base: dict[str, Any] = {"optimizer": "adam", "learning_rate": learning_rate, "clip": 0.5}
    found = {"adam": MethodSpec(**base)}
    for name, options in resets.items():
        found[name] = MethodSpec(reset=name, options=options, **base)
    return found


SPEC = Experiment(
    name="slippery_ant",
    title="SlipperyAnt: PPO on an ant, new friction every 20M steps, as in the paper",
    tasks=20,
    seeds=15,
    stream=RobotTasks(robot="ant", physics="unrolled", changes="friction = log_uniform(0.02, 2.0)"),
    agent=PPOConfig(iterations_per_chunk=17, reward_floor=-5.0),
    networks=ActorCriticMLPs(),
    methods=methods(
        1e-3,
        cpr={"max_reset": 0.015, "decay": 0.99, "every": 1000},
        cbp={"replacement_rate": 3e-3, "decay": 0.99, "maturity": 100},
        redo={"threshold": 0.65, "every": 100},
        regrama={"threshold": 0.25, "every": 100},
        shrink_perturb={"shrink": 1e-3, "perturb": 5e-3, "every": 1000, "kernels_only": True},
    ),
    scales={
        "smoke": {
            "compilation": "quick",
            "tasks": 2,
            "iterations_per_task": 2,
            "iterations_per_chunk": 1,
            "environments": 16,
            "seeds": 2,
            **smoke.RESETS,
        },
        "short": {"tasks": 5, "iterations_per_task": 30, "iterations_per_chunk": 10, "seeds": 4},
    },
)
