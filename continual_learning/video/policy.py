"""The policy of a study's newest checkpoint, and what it does in chosen tasks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.common.normalizer import Normaliser
from continual_learning.agents.common.tasks import ACTIONS, EPISODES, STREAM
from continual_learning.agents.ppo.actions import actions_of
from continual_learning.envs.base import Environment, Task
from continual_learning.envs.episodes import Episodes, Live
from continual_learning.envs.robots import Robot
from continual_learning.envs.robots.delayed import Delayed, DelayedState
from continual_learning.envs.streams import TaskStream
from continual_learning.networks import DiagonalGaussian
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies import build
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.store.store import Store
from continual_learning.studies.study import Study
from continual_learning.video.watchable import check_watchable


@dataclasses.dataclass(frozen=True)
class Trained:
    """A policy as a study has trained it so far.

    Attributes:
      experiment: of the study.
      stream: its tasks.
      method: that trained it.
      seed: with which.
      numbers: {name: number} of its lane's own.
      alike: how many lanes of the seed fit what was asked; this is the first of them.
      key: of the seed.
      params: of the policy.
      normaliser: statistics of the observations; () if they are not normalised.
      task: number of the task that it was trained on last.
      options: what the physics asks of the compiler.
    """

    experiment: Experiment
    stream: TaskStream
    method: str
    seed: int
    numbers: Mapping[str, float]
    alike: int
    key: jax.Array
    params: Any
    normaliser: Any
    task: int
    options: Mapping[str, Any]

    @property
    def env(self) -> Environment:
        """The robot, with its delays if it has any."""
        return self.stream.environment

    @property
    def robot(self) -> Robot:
        """The robot alone."""
        env: Any = self.env
        while isinstance(env, Delayed):
            env = env.env
        return env

    @property
    def last_task(self) -> dict[str, float]:
        """Parameters of the task that it was trained on last."""
        task = self.stream.task(jax.random.fold_in(self.key, STREAM), jnp.int32(self.task))
        return {name: float(value) for name, value in task.items()}


class Played(NamedTuple):
    """What a policy did; everything [tasks, steps, …], as it was before the step.

    Attributes:
      q: float32 [tasks, steps, q_size], positions.
      speed: float32, of the torso along x, in m/s.
      length: int32, steps into the episode.
      total: float32, rewards of the episode so far.
      episode: int32, 1 for the first.
      reward: float32, of the step.
      ended: bool, whether the step ended the episode.
    """

    q: np.ndarray
    speed: np.ndarray
    length: np.ndarray
    total: np.ndarray
    episode: np.ndarray
    reward: np.ndarray
    ended: np.ndarray


def trained(
    path: Path,
    method: str | None = None,
    seed: int | None = None,
    lane: Mapping[str, float] | None = None,
) -> Trained:
    """The policy in the newest checkpoint; another process may be writing the study.

    Args:
      path: folder of the study.
      method: may be left out if there is only one.
      seed: the first if left out.
      lane: {name: number}, what its lane has of its own; the first that has, if left out.
    """
    load_plugins(path)
    store = Store.read(path)
    study = Study.from_dict(store.study)
    experiment, methods = study.experiment, study.methods
    check_watchable(path, experiment)
    if method is None and len(methods) > 1:
        raise StudyError(f"{path} has several methods: choose one of {', '.join(methods)}.")
    method = methods[0] if method is None else method
    if method not in methods:
        raise unknown(f"method of {path}", method, methods)
    lanes = _lanes(path, study, seed, lane or {})

    built = build.stream(experiment)
    stream = built.stream
    env = stream.environment
    like = jax.eval_shape(lambda: _like(experiment, env))
    found = store.restore(method, like, lane=lanes[0])
    if found is None:
        raise StudyError(
            f"{method} has no checkpoint in {path}: one is kept every minute and at a stop. "
            f"Methods that have one: {', '.join(store.saved()) or 'none'}."
        )
    state = found[1]
    last = (int(state["iteration"]) - 1) // experiment.value("iterations_per_task")
    return Trained(
        experiment,
        stream,
        method,
        study.seeds[lanes[0]],
        {name: values[lanes[0]] for name, values in study.hyper.items()},
        len(lanes),
        state["key"],
        state["params"]["policy"],
        state["normaliser"],
        last,
        built.options,
    )


def _lanes(path: Path, study: Study, seed: int | None, numbers: Mapping[str, float]) -> list[int]:
    """The lanes of a seed that have these numbers; of the first seed with any, if it is None."""
    if seed is not None and seed not in study.seeds:
        raise unknown(f"seed of {path}", seed, map(str, dict.fromkeys(study.seeds)))
    for name, number in numbers.items():
        if name not in study.hyper:
            raise unknown(f"number of the lanes of {path}", name, study.hyper)
        values = dict.fromkeys(study.hyper[name])
        if number not in values:
            raise unknown(
                f"{name} of the lanes of {path}", f"{number:g}", map("{:g}".format, values)
            )
    found = [
        i
        for i, own in enumerate(study.seeds)
        if seed in (None, own) and all(study.hyper[n][i] == x for n, x in numbers.items())
    ]
    if not found:
        asked = [f"seed {seed}"] * (seed is not None) + [f"{n}={x:g}" for n, x in numbers.items()]
        raise StudyError(f"{path} has no lane with {' and '.join(asked)}.")
    return [i for i in found if study.seeds[i] == study.seeds[found[0]]]


def tasks_of(
    trained: Trained, frictions: Sequence[float] = (), changes: Mapping[str, float] | None = None
) -> list[dict[str, float]]:
    """The tasks to play, one per friction: the last one of training, with other values.

    Args:
      trained: whose tasks these are.
      frictions: that of training's last task, if there is none.
      changes: {parameter: value}, for all of them.
    """
    changes, task = dict(changes or {}), trained.last_task
    for name in changes:
        if name not in task:
            raise unknown(f"task parameter of {trained.experiment.name}", name, sorted(task))
    if "friction" in changes:
        if frictions:
            raise StudyError("friction is given twice, with --friction and with --set.")
        frictions = [changes["friction"]]
    for name, value in [*changes.items(), *(("friction", value) for value in frictions)]:
        _check_value(trained, name, value)
    if trained.experiment.value("friction") == "as_released":
        task["friction"] = trained.robot.usual_friction  # whatever the task says
    return [{**task, **changes, "friction": f} for f in frictions or [task["friction"]]]


def play(
    trained: Trained, tasks: Sequence[Mapping[str, float]], steps: int, *, stochastic: bool = False
) -> Played:
    """Plays all tasks side by side, from the same first states, as one program.

    Args:
      trained: the policy.
      tasks: every parameter of each.
      steps: how many; an episode that ends as in training is followed by another.
      stochastic: whether actions are drawn, as in training, or the mean ones.
    """
    program = _program(trained, steps, stochastic)
    stacked = {
        name: jnp.asarray([task[name] for task in tasks], jnp.float32)
        for name in trained.env.parameters
    }
    body, length, total, reward, ended = jax.device_get(
        program(trained.params, trained.normaliser, stacked)
    )
    before = np.cumsum(ended, axis=1, dtype=np.int32) - ended
    return Played(body.q, body.qd[..., 0], length, total, 1 + before, reward, ended)


def actor(trained: Trained, stochastic: bool) -> Callable[..., jax.Array]:
    """(params, normaliser, key, observations [n, observation_size]) -> actions [n, action_size]."""
    experiment = trained.experiment
    network = _network(experiment, trained.env)

    def act(params: Any, normaliser: Any, key: jax.Array, observations: jax.Array) -> jax.Array:
        if experiment.value("normalise_observations"):
            observations = normaliser.normalise(observations)
        outputs = jnp.asarray(network.apply(params, observations))
        gaussian = DiagonalGaussian.from_outputs(outputs)
        action, limit = (
            gaussian.sample(key) if stochastic else gaussian.mean,
            experiment.value("action_limit"),
        )
        return action if limit is None else jnp.clip(action, -limit, limit)

    return act


def _program(trained: Trained, steps: int, stochastic: bool) -> Callable[..., Any]:
    """(params, normaliser, {parameter: [tasks]}) -> arrays [tasks, steps, …]."""
    act = actor(trained, stochastic)
    # Every start is a new one: from the same one, mean actions would do the same again.
    episodes = Episodes(trained.env, 1, trained.experiment.value("episode_length"), restart="fresh")
    starts, draws = (jax.random.fold_in(trained.key, use) for use in (EPISODES, ACTIONS))

    def one(params: Any, normaliser: Any, task: Task) -> Any:
        def step(live: Live, number: jax.Array) -> tuple[Live, Any]:
            key = jax.random.fold_in(draws, number)
            action = act(params, normaliser, key, live.observation)
            after, reached = episodes.step(live, action, task)
            state = live.state
            seen = _body(state.env), state.length, state.total, reached.reward, reached.ended
            return after, jax.tree.map(lambda x: x[0], seen)

        live = episodes.live(episodes.begin(starts, task), task)
        return jax.lax.scan(step, live, jnp.arange(steps))[1]

    options = dict(trained.options)
    return jax.jit(jax.vmap(one, (None, None, 0)), compiler_options=options)


def _network(experiment: Experiment, env: Environment) -> Any:
    """The policy."""
    return experiment.networks.build("policy", actions_of(env).outputs)


def _body(state: Any) -> Any:
    """The robot's body in a state of its environment, without what only the solver reads."""
    while isinstance(state, DelayedState):
        state = state.env
    return state.body._replace(warm=(), seen=())


def _like(experiment: Experiment, env: Environment) -> dict[str, Any]:
    """What is read of a lane's `PPOState`."""
    key = jax.random.key(0)
    network = _network(experiment, env)
    start = (
        Normaliser.start(env.observation_size) if experiment.value("normalise_observations") else ()
    )
    return {
        "key": key,
        "params": {"policy": network.init(key, jnp.zeros((1, env.observation_size)))},
        "normaliser": start,
        "iteration": jnp.zeros((), jnp.int32),
    }


def _check_value(trained: Trained, name: str, value: float) -> None:
    experiment = trained.experiment
    valid = math.isfinite(value)
    says = "a number"
    if name.removesuffix("_high").endswith("_delay"):
        longest = experiment.value(f"longest_{name.removesuffix('_high')}")
        valid, says = value in range(longest + 1), f"a whole number up to {longest}"
    elif name == "friction":
        valid, says = valid and value > 0, "above 0"
        if experiment.value("friction") == "as_released":
            usual = trained.robot.usual_friction
            valid = value == usual
            says = f"{usual:g}, for in this study it never acts (friction = as_released)"
    elif name in ("gravity", "strength"):
        valid, says = valid and value >= 0, "0 or more"
    if not valid:
        raise StudyError(f"{name} must be {says}; got {value:g}.")
