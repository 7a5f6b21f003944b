"""Delayed Ant whose delays grow by one in every task, in turns of observations and of actions."""

from continual_learning.studies.presets import delayed_ant

_INCREMENTS = 20
_OBSERVATION = [(task + 1) // 2 for task in range(_INCREMENTS + 1)]  # 0, 1, 1, 2, …, 10, 10
_ACTION = [task // 2 for task in range(_INCREMENTS + 1)]  # 0, 0, 1, 1, …, 9, 10


def _values(numbers: list[int]) -> str:
    return f"values({', '.join(map(str, numbers))})"


SPEC = delayed_ant.SPEC.override(
    name="delayed_ant_ramp",
    title="Ant with delays that grow from 0 to 10, by one every 20M steps, of which it is not told",
    changes=f"observation_delay = {_values(_OBSERVATION)}; action_delay = {_values(_ACTION)}",
    longest_observation_delay=max(_OBSERVATION),
    longest_action_delay=max(_ACTION),
    told_delays="none",
    tasks=_INCREMENTS + 1,
)
