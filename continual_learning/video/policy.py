"""The policy of a study's newest checkpoint, and its behavior in chosen tasks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from continual_learning.agents.common.normalizer import Normalizer
from continual_learning.agents.common.tasks import ACTIONS, EPISODES, STREAM
from continual_learning.agents.ppo.actions import actions_of
from continual_learning.envs.base import Environment, Task
from continual_learning.envs.catalog import OnDevice
from continual_learning.envs.episodes import Episodes, Live
from continual_learning.envs.robots import Robot
from continual_learning.envs.robots.delayed import Delayed, DelayedState
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
      experiment: the experiment of the study.
      method: the method that trained it.
      seed: the seed of its run.
      numbers: {name: number}, the lane's own numbers.
      alike: how many lanes of the seed match the request; this is the first of them.
      key: the key of the seed.
      params: the weights of the policy.
      normalizer: statistics of the observations; () if they are not normalized.
      task: the number of the task that it was trained on last.
      built: the stream, with the length of episodes and the options of the compiler.
    """

    experiment: Experiment
    method: str
    seed: int
    numbers: Mapping[str, float]
    alike: int
    key: jax.Array
    params: Any
    normalizer: Any
    task: int
    built: OnDevice

    @property
    def env(self) -> Environment:
        """The environment: the robot, with its delays if it has any."""
        return self.built.stream.environment

    @property
    def robot(self) -> Robot:
        """The robot without delays."""
        env: Any = self.env
        while isinstance(env, Delayed):
            env = env.env
        return env

    @property
    def released(self) -> bool:
        """Whether the friction is that of the model, whatever the task says."""
        return getattr(self.experiment.stream, "friction", None) == "as_released"

    @property
    def last_task(self) -> dict[str, float]:
        """The parameters of the task that it was trained on last."""
        task = self.built.stream.task(jax.random.fold_in(self.key, STREAM), jnp.int32(self.task))
        return {name: float(value) for name, value in task.items()}


class Played(NamedTuple):
    """The states of a played policy before every step, all [tasks, steps, …].

    Attributes:
      q: float32 [tasks, steps, q_size], the positions.
      speed: float32, the speed of the torso along x, in m/s.
      length: int32, the steps of the episode so far.
      total: float32, the sum of the episode's rewards so far.
      episode: int32, the number of the episode, from 1 on.
      reward: float32, the reward of the step.
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
    """Return the policy in the newest checkpoint; another process may be writing the study.

    Args:
      path: the folder of the study.
      method: the method; None if there is only one.
      seed: the seed; None for the first.
      lane: {name: number}, numbers of its lane; None for the first lane.
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
    env = built.stream.environment
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
        method,
        study.seeds[lanes[0]],
        {name: values[lanes[0]] for name, values in study.hyper.items()},
        len(lanes),
        state["key"],
        state["params"]["policy"],
        state["normalizer"],
        last,
        built,
    )


def _lanes(path: Path, study: Study, seed: int | None, numbers: Mapping[str, float]) -> list[int]:
    """Return the lanes of a seed, or of the first seed that has any, with these numbers."""
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
    """Return the tasks to play, one per friction: the last one of training, with other values.

    Args:
      trained: the policy.
      frictions: the frictions; if there is none, that of the last task.
      changes: {parameter: value} of all tasks.
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
    if trained.released:
        task["friction"] = trained.robot.usual_friction
    return [{**task, **changes, "friction": f} for f in frictions or [task["friction"]]]


def play(
    trained: Trained, tasks: Sequence[Mapping[str, float]], steps: int, *, stochastic: bool = False
) -> Played:
    """Play all tasks side by side, from the same first states, as one program.

    Args:
      trained: the policy.
      tasks: all parameters of every task.
      steps: the number of steps; a new episode follows one that ends as in training.
      stochastic: whether actions are drawn, as in training, or are the mean ones.
    """
    program = _program(trained, steps, stochastic)
    stacked = {
        name: jnp.asarray([task[name] for task in tasks], jnp.float32)
        for name in trained.env.parameters
    }
    body, length, total, reward, ended = jax.device_get(
        program(trained.params, trained.normalizer, stacked)
    )
    before = np.cumsum(ended, axis=1, dtype=np.int32) - ended
    return Played(body.q, body.qd[..., 0], length, total, 1 + before, reward, ended)


def actor(trained: Trained, stochastic: bool) -> Callable[..., jax.Array]:
    """Return (params, normalizer, key, observations [n, size]) -> actions [n, action_size]."""
    experiment = trained.experiment
    network = _network(experiment, trained.env)

    def act(params: Any, normalizer: Any, key: jax.Array, observations: jax.Array) -> jax.Array:
        if experiment.value("normalize_observations"):
            observations = normalizer.normalize(observations)
        outputs = jnp.asarray(network.apply(params, observations))
        gaussian = DiagonalGaussian.from_outputs(outputs)
        action, limit = (
            gaussian.sample(key) if stochastic else gaussian.mean,
            experiment.value("action_limit"),
        )
        return action if limit is None else jnp.clip(action, -limit, limit)

    return act


def _program(trained: Trained, steps: int, stochastic: bool) -> Callable[..., Any]:
    """Return a function (params, normalizer, {parameter: [tasks]}) -> arrays [tasks, steps, …]."""
    act = actor(trained, stochastic)
    # Every episode has a new start, because mean actions from the same start repeat themselves.
    episodes = Episodes(trained.env, 1, trained.built.length, restart="fresh")
    starts, draws = (jax.random.fold_in(trained.key, use) for use in (EPISODES, ACTIONS))

    def one(params: Any, normalizer: Any, task: Task) -> Any:
        def step(live: Live, number: jax.Array) -> tuple[Live, Any]:
            key = jax.random.fold_in(draws, number)
            action = act(params, normalizer, key, live.observation)
            after, reached = episodes.step(live, action, task)
            state = live.state
            seen = _body(state.env), state.length, state.total, reached.reward, reached.ended
            return after, jax.tree.map(lambda x: x[0], seen)

        live = episodes.live(episodes.begin(starts, task), task)
        return jax.lax.scan(step, live, jnp.arange(steps))[1]

    options = dict(trained.built.options)
    return jax.jit(jax.vmap(one, (None, None, 0)), compiler_options=options)


def _network(experiment: Experiment, env: Environment) -> Any:
    """Return the network of the policy."""
    return experiment.networks.build("policy", actions_of(env).outputs)


def _body(state: Any) -> Any:
    """Return the robot's body in a state of its environment, without the start of the solver."""
    while isinstance(state, DelayedState):
        state = state.env
    return state.body._replace(warm=(), seen=())


def _like(experiment: Experiment, env: Environment) -> dict[str, Any]:
    """Return the parts of a lane's `PPOState` that are read from the checkpoint."""
    key = jax.random.key(0)
    network = _network(experiment, env)
    start = (
        Normalizer.start(env.observation_size) if experiment.value("normalize_observations") else ()
    )
    return {
        "key": key,
        "params": {"policy": network.init(key, jnp.zeros((1, env.observation_size)))},
        "normalizer": start,
        "iteration": jnp.zeros((), jnp.int32),
    }


def _check_value(trained: Trained, name: str, value: float) -> None:
    valid = math.isfinite(value)
    says = "a number"
    longest = getattr(trained.experiment.stream, f"longest_{name.removesuffix('_high')}", None)
    if longest is not None:
        valid, says = value in range(longest + 1), f"a whole number up to {longest}"
    elif name == "friction":
        valid, says = valid and value > 0, "above 0"
        if trained.released:
            usual = trained.robot.usual_friction
            valid = value == usual
            says = f"{usual:g}, for in this study it never acts (friction = as_released)"
    elif name in ("gravity", "strength"):
        valid, says = valid and value >= 0, "0 or more"
    if not valid:
        raise StudyError(f"{name} must be {says}; got {value:g}.")
