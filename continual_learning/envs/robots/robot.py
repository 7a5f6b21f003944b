"""Robots on a ground whose friction, gravity and motors may change from task to task."""

from __future__ import annotations

import abc
import copy
import dataclasses
import threading
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import mujoco
from brax.base import System
from brax.io import mjcf
from etils import epath

from continual_learning.envs.base import Task, Transition
from continual_learning.envs.episodes import select
from continual_learning.envs.robots.physics import MJX, Body, Generalized, Physics, Unrolled
from continual_learning.schema.names import Engine, Friction, Precision

ABSURD_SPEED = 1e3
"""The velocity, in m/s or rad/s, above which a robot counts as diverged."""

# Several threads may make robots, but they share the warning filters of the process.
_FILTERS = threading.Lock()


class Solver(NamedTuple):
    """Settings of MuJoCo's Newton solver.

    Attributes:
      cone: the cone of friction; Brax uses the pyramid, whose friction depends on the direction.
      iterations: the iterations of the solver.
      line_search: the evaluations of its line search; in MJX the steps, of three evaluations each.
    """

    cone: Literal["elliptic", "pyramidal"] = "elliptic"
    iterations: int = 2
    line_search: int = 4


BRAX_SOLVER = Solver("pyramidal", 1, 4)
UNROLLED_SOLVER = Solver("elliptic", 2, 8)
"""The settings for the unrolled engine. With these, the friction of a pushed block is the same as
with 20 iterations and evaluations; with 4 evaluations the block begins to hop
(benchmarks/friction.py).
"""


class RobotState(NamedTuple):
    """The state of a robot between two steps.

    Attributes:
      body: positions, velocities, and the start of the solver.
      memory: all else that the next step reads.
    """

    body: Body
    memory: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Robot(abc.ABC):
    """A robot of Brax: its observation, reward and end of an episode, on ground that changes.

    The task parameters are `friction` of every contact (all contacts are with the ground, so this
    is the ground's), and the factors `gravity`, `strength` of the motors, and `reward_scale`. The
    class variables of a robot define where it starts, when it has fallen, and the settings of its
    solver.

    A state that is not finite or has diverged ends its episode as terminated, with reward 0 and an
    observation of zeros, and the step counts as `diverged`.

    Attributes:
      physics: "unrolled", MuJoCo's step as straight-line arithmetic; or Brax's "generalized"
        pipeline or "mjx", to compare with the paper.
      friction: "applied"; or "as_released", the friction of the model whatever the task says, as in
        the published code.
      solver: settings of MuJoCo's solver; None for those of this robot.
      precision: the precision of matrix products within the physics: "float32", or "default", that
        of the device. NVIDIA GPUs use TF32, of ten bits, with which MJX diverges.
    """

    physics: Engine = "unrolled"
    friction: Friction = "applied"
    solver: Solver | None = None
    precision: Precision = "float32"
    _system: System = dataclasses.field(init=False, repr=False)
    _engine: Physics = dataclasses.field(init=False, repr=False)

    model: ClassVar[str]  # a file of Brax
    frames: ClassVar[int] = 5
    usual_friction: ClassVar[float] = 1.0
    usual_solver: ClassVar[Solver] = Solver()  # for MJX
    implicit_damping: ClassVar[bool] = False  # of joints, in MuJoCo's integrator
    noise: ClassVar[float]  # of first positions and velocities
    first_speeds: ClassVar[Literal["normal", "uniform"]]
    healthy: ClassVar[tuple[float, float]]  # heights of the torso

    def __post_init__(self):
        valid = {
            "physics": get_args(Engine),
            "friction": get_args(Friction),
            "precision": get_args(Precision),
        }
        for name, values in valid.items():
            if getattr(self, name) not in values:
                raise ValueError(
                    f"{name} must be one of {', '.join(values)}; got {getattr(self, name)!r}."
                )
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Brax warns that its pipelines are not maintained.
            path = epath.resource_path("brax") / "envs/assets" / self.model
            system = mjcf.load(path)
        engine: Physics = Generalized(self.frames)
        if self.physics == "mjx":
            engine = MJX(self.frames)
            system = solver_set(system, self.solver or self.usual_solver, self.implicit_damping)
        elif self.physics == "unrolled":
            engine = Unrolled(self._unrolled_model(system), self.frames)
        elif self.solver is not None:
            raise ValueError("solver: these are settings of MuJoCo; leave it out for generalized.")
        object.__setattr__(self, "_system", system)
        object.__setattr__(self, "_engine", engine)

    @property
    def parameters(self) -> Mapping[str, float]:
        """The task parameters, with their usual values."""
        return {
            "friction": self.usual_friction,
            "gravity": 1.0,
            "strength": 1.0,
            "reward_scale": 1.0,
        }

    @property
    @abc.abstractmethod
    def observation_size(self) -> int:
        """The number of entries of an observation."""

    @property
    def action_size(self) -> int:
        """Motors."""
        return self._system.act_size()

    @property
    def dt(self) -> float:
        """The seconds of a step."""
        return float(self._system.opt.timestep) * self.frames

    @property
    def mujoco_model(self) -> Any:
        """MuJoCo's model of the robot and its ground, for pictures."""
        return self._system.mj_model

    def system(self, task: Task) -> System:
        """Return the robot and its ground in a task."""
        system = self._system
        changes: dict[str, Any] = {
            "gravity": system.gravity * task["gravity"],  # for the generalized pipeline
            "opt.gravity": system.opt.gravity * task["gravity"],
            "actuator.gear": system.actuator.gear * task["strength"],
            "actuator_gear": system.actuator_gear * task["strength"],
        }
        if self.friction == "applied":
            changes["geom_friction"] = system.geom_friction.at[:, 0].set(task["friction"])
        return _replaced(system, changes)

    def _world(self, task: Task) -> Any:
        """Return a task in the form that the engine needs."""
        if self.physics != "unrolled":
            return self.system(task)
        names = ["gravity", "strength"] + ["friction"] * (self.friction == "applied")
        return {name: task[name] for name in names}

    def reset(self, key: jax.Array, task: Task) -> RobotState:
        """Return a first state near the robot's pose at rest."""
        system = self.system(task)
        with jax.default_matmul_precision(self.precision):
            body = self._engine.start(self._world(task), *self._first(key))
        return RobotState(body, self._remember(system, body, jnp.zeros(self.action_size)))

    def observe(self, state: RobotState, task: Task) -> jax.Array:
        """Return the observation, [observation_size]."""
        return self._sense(self.system(task), state)

    def step(
        self, key: jax.Array, state: RobotState, action: jax.Array, task: Task
    ) -> tuple[RobotState, Transition]:
        """Make `frames` substeps of physics."""
        system = self.system(task)
        control = self._control(action)
        with jax.default_matmul_precision(self.precision):
            body = self._engine.step(self._world(task), state.body, control)
        reached = RobotState(body, self._remember(system, body, control))
        reward = self._reward(state, reached, control)
        observation = self._sense(system, reached)

        values = jnp.concatenate([body.q, body.qd, observation, reward[None]])
        sound = jnp.all(jnp.isfinite(values)) & jnp.all(jnp.abs(body.qd) < ABSURD_SPEED)
        return select(sound, reached, state), Transition(
            jnp.where(sound, observation, 0.0),
            jnp.where(sound, reward * task["reward_scale"], 0.0),
            ~sound | self._fallen(body),
            {"diverged": 1.0 - sound},
        )

    def _first(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return (q, qd) of a first state."""
        _, for_q, for_qd = jax.random.split(key, 3)
        size, speeds = (self._system.q_size(),), (self._system.qd_size(),)
        noise = jax.random.uniform(for_q, size, minval=-self.noise, maxval=self.noise)
        if self.first_speeds == "normal":
            qd = self.noise * jax.random.normal(for_qd, speeds)
        else:
            qd = jax.random.uniform(for_qd, speeds, minval=-self.noise, maxval=self.noise)
        return self._system.init_q + noise, qd

    def _control(self, action: jax.Array) -> jax.Array:
        """Return the control of the motors, [act_size]."""
        return action

    def _remember(self, system: System, body: Body, control: jax.Array) -> Any:
        """Return all that the next step needs besides the body."""
        return ()

    @abc.abstractmethod
    def _sense(self, system: System, state: RobotState) -> jax.Array:
        """Return the observation of a valid state."""

    @abc.abstractmethod
    def _reward(self, before: RobotState, after: RobotState, control: jax.Array) -> jax.Array:
        """Return the reward, []."""

    def _fallen(self, body: Body) -> jax.Array:
        """Return whether the robot has fallen, which ends the episode, bool []."""
        low, high = self.healthy
        height = self._torso(body)[2]
        return (height < low) | (height > high)

    def _torso(self, body: Body) -> jax.Array:
        """Return the position [3] of the torso as its link reports it."""
        return reported(body)[:3]

    def _unrolled_model(self, system: System) -> Any:
        """Return the `mujoco.MjModel` that the unrolled engine reads."""
        return solver_of(system.mj_model, self.solver or UNROLLED_SOLVER, self.implicit_damping)


def reported(body: Body) -> jax.Array:
    """Return the positions [q_size] at which the poses of the links are read."""
    q, _ = body.seen or (body.q, body.qd)
    return q


def solver_set(system: System, settings: Solver, implicit_damping: bool = False) -> System:
    """Return a system with settings of MJX's Newton solver, as Brax sets it for ant and humanoid.

    Args:
      system: the robot and its ground.
      settings: the settings of the solver.
      implicit_damping: whether the integrator treats damping of joints implicitly.
    """
    names: Any = mujoco  # Its constants have no types.
    cones = {
        "elliptic": names.mjtCone.mjCONE_ELLIPTIC,
        "pyramidal": names.mjtCone.mjCONE_PYRAMIDAL,
    }
    return _replaced(
        system,
        {
            "opt.solver": names.mjtSolver.mjSOL_NEWTON,
            "opt.disableflags": 0 if implicit_damping else names.mjtDisableBit.mjDSBL_EULERDAMP,
            "opt.cone": cones[settings.cone],
            "opt.iterations": settings.iterations,
            "opt.ls_iterations": settings.line_search,
        },
    )


def solver_of(model: Any, settings: Solver, implicit_damping: bool = False) -> Any:
    """Return a `mujoco.MjModel` with settings of the solver.

    Args:
      model: the model, which does not change.
      settings: the settings of the solver.
      implicit_damping: whether the integrator treats damping of joints implicitly.
    """
    names: Any = mujoco
    changed = copy.copy(model)
    changed.opt.solver = names.mjtSolver.mjSOL_NEWTON
    if not implicit_damping:
        changed.opt.disableflags |= names.mjtDisableBit.mjDSBL_EULERDAMP
    changed.opt.cone = getattr(names.mjtCone, f"mjCONE_{settings.cone.upper()}")
    changed.opt.iterations, changed.opt.ls_iterations = settings.iterations, settings.line_search
    return changed


def _replaced(system: System, changes: dict[str, Any]) -> System:
    changed: Any = system.tree_replace(changes)
    return changed
