"""A MuJoCo model as straight-line arithmetic on arrays whose last axis is the environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from continual_learning.physics import constraints as rows
from continual_learning.physics import dynamics, kinematics, model, solver, spatial
from continual_learning.physics.constraints import Constraints
from continual_learning.physics.kernel import in_one_kernel
from continual_learning.physics.kinematics import Frames
from continual_learning.physics.model import Model
from continual_learning.physics.scalars import ONE, Scalar, scalars, stacked
from continual_learning.physics.spatial import Vec
from continual_learning.physics.tree import Matrix, Tree, Vector

CPU_OPTIONS = {"xla_disable_hlo_passes": "fusion"}
"""Options of the compiler for programs on a CPU.

On a CPU, XLA fuses operations by computing a result again for every operation that reads it. With
thousands of operations that read one another, compilation then takes minutes, but seconds without
fusion."""

PARAMETERS = ("friction", "gravity", "strength", "mass", "damping", "range")

Parameters = Mapping[str, jax.Array]
"""Values, [] or [envs], that may differ between environments and change while a program runs. The
model's own values are used for names that are left out.

`friction` is the sliding friction of every geom. The others are factors: `gravity` of gravity,
`strength` of the motors' gears, `mass` of masses and inertias, `damping` of the joints' damping,
and `range` of the joints' limits. MuJoCo's constants of the pose at rest (invweight0, meaninertia)
stay those of the model, as they do when a user writes to an MjModel."""

Moving = tuple[Vector, Vector, Vector]
"""A `State` as scalars."""


class State(NamedTuple):
    """The state of robots between two steps.

    Attributes:
      qpos: [positions, envs], the positions.
      qvel: [velocities, envs], the velocities.
      warm: [velocities, envs], the last acceleration, from which the solver starts (MuJoCo's
        qacc_warmstart).
    """

    qpos: jax.Array
    qvel: jax.Array
    warm: jax.Array


class Dynamics(NamedTuple):
    """The acceleration and all quantities that it is computed from, as `Scalar`s."""

    frames: Frames
    mass_matrix: Matrix
    motion: dynamics.Motion
    bias: Vector
    passive: Vector
    actuation: Vector
    constraints: Constraints
    free: Vector
    solution: solver.Solution


class Links(NamedTuple):
    """Poses and velocities of the bodies in the world.

    Attributes:
      position: [bodies, 3, envs].
      rotation: [bodies, 4, envs], quaternions.
      center: [bodies, 3, envs], centers of mass.
      angular, linear: [bodies, 3, envs], velocities; the linear one is that of the frame's origin.
    """

    position: jax.Array
    rotation: jax.Array
    center: jax.Array
    angular: jax.Array
    linear: jax.Array


def unroll(mujoco_model: Any, substeps: int = 1) -> Engine:
    """Return the engine of a `mujoco.MjModel`.

    Args:
      mujoco_model: a model of hinges, slides and free joints, in which spheres, capsules and boxes
        may touch planes.
      substeps: how many of the model's timesteps, under one control, a step of the engine makes.

    Raises:
      UnsupportedModel: the model has something that the engine does not cover.
    """
    return Engine(model.read(mujoco_model), substeps)


class Engine:
    """An engine that steps many robots at once.

    Attributes:
      model: the robot and its ground.
      substeps: how many substeps a step makes.
      tree: the tree of the velocities.
    """

    def __init__(self, model: Model, substeps: int = 1):
        self.model = model
        self.substeps = substeps
        self.tree = Tree(model.above)

    def state(self, qpos: jax.Array, qvel: jax.Array) -> State:
        """Return a state with warm start 0: qpos [positions, envs], qvel [velocities, envs]."""
        return State(qpos, qvel, jnp.zeros_like(qvel))

    def step(self, state: State, control: jax.Array, parameters: Parameters | None = None) -> State:
        """Return the robots `substeps` steps later (MuJoCo's mj_step).

        Args:
          state: the robots now.
          control: [motors, envs].
          parameters: those that differ from the model's.
        """
        start = scalars(state.qpos), scalars(state.qvel), scalars(state.warm)
        end = in_one_kernel(self._steps, start, scalars(control), _Parameters.of(parameters))
        return State(*(stacked(part, state.qvel[0]) for part in end))

    def dynamics(
        self, state: State, control: jax.Array, parameters: Parameters | None = None
    ) -> Dynamics:
        """Return the acceleration and all that it is computed from (MuJoCo's mj_forward).

        Args:
          state: the robots now.
          control: [motors, envs].
          parameters: those that differ from the model's.
        """
        like, chosen = state.qvel[0], _Parameters.of(parameters)
        q, v, warm = (scalars(part) for part in state)
        return self._dynamics(q, v, warm, scalars(control), chosen, like)

    def links(self, qpos: jax.Array, qvel: jax.Array) -> Links:
        """Return where the bodies are and how they move: qpos [positions, envs], qvel likewise."""
        where = kinematics.frames(self.model, scalars(qpos))
        moving = dynamics.motion(self.model, where, scalars(qvel))

        def in_world(points: tuple[Vec, ...]) -> tuple[Vec, ...]:
            return tuple(o + p for o, p in zip(where.origin, points, strict=True))

        linear = [
            velocity.linear + spatial.cross(velocity.angular, position)
            for velocity, position in zip(moving.velocity, where.position, strict=True)
        ]
        found = (
            in_world(where.position),
            where.rotation,
            in_world(where.center),
            [velocity.angular for velocity in moving.velocity],
            linear,
        )
        return Links(*(stacked(numbers, qvel[0]) for numbers in found))

    def _steps(self, start: Moving, control: Vector, parameters: _Parameters) -> Moving:
        """Make `substeps` substeps."""
        like = start[1][0].value

        def substep(_: int, now: Moving) -> Moving:
            return self._substep(*now, control, parameters, like)

        return jax.lax.fori_loop(0, self.substeps, substep, start)

    def _dynamics(
        self,
        q: Vector,
        v: Vector,
        warm: Vector,
        control: Vector,
        parameters: _Parameters,
        like: jax.Array,
    ) -> Dynamics:
        model, tree = self.model, self.tree
        where = kinematics.frames(model, q)
        inertias = kinematics.inertias(model, where, parameters.mass)
        matrix = dynamics.mass_matrix(model, tree, where, inertias)
        moving = dynamics.motion(model, where, v)
        bias = dynamics.bias(model, where, inertias, moving, v, parameters.gravity)
        passive = dynamics.passive(model, q, v, parameters.damping)
        actuation = dynamics.actuation(model, control, parameters.strength)
        acting = Constraints(
            rows.limits(model, q, v, parameters.range),
            rows.contacts(model, tree, where, v, parameters.friction),
        )
        force = tuple(a + b - c for a, b, c in zip(passive, actuation, bias, strict=True))
        free = tree.solved(tree.factorized(matrix), force)
        problem = solver.Problem(matrix, force, free, acting)
        solution = solver.solve(model, tree, problem, warm, like)
        return Dynamics(where, matrix, moving, bias, passive, actuation, acting, free, solution)

    def _substep(
        self,
        q: Vector,
        v: Vector,
        warm: Vector,
        control: Vector,
        parameters: _Parameters,
        like: jax.Array,
    ) -> Moving:
        model, tree = self.model, self.tree
        found = self._dynamics(q, v, warm, control, parameters, like)
        acceleration = found.solution.acceleration
        change = acceleration
        if model.implicit_damping:
            matrix = dict(found.mass_matrix)
            for i, damping in enumerate(model.damping):
                matrix[i, i] = matrix[i, i] + parameters.damping * (damping * model.timestep)
            force = [
                a + b - c + d
                for a, b, c, d in zip(
                    found.passive,
                    found.actuation,
                    found.bias,
                    found.solution.constraint,
                    strict=True,
                )
            ]
            change = tree.solved(tree.factorized(matrix), force)
        v = tuple(a + b * model.timestep for a, b in zip(v, change, strict=True))
        return (
            self._moved(q, v),
            tuple(Scalar(stacked(number, like)) for number in v),
            tuple(Scalar(stacked(number, like)) for number in acceleration),
        )

    def _moved(self, q: Vector, v: Vector) -> Vector:
        """Return the positions after a substep (mj_integratePos)."""
        moved, seconds = list(q), self.model.timestep
        for joint in self.model.joints:
            at, i = joint.position, joint.velocity
            count = 3 if joint.kind == "free" else 1
            for k in range(count):
                moved[at + k] = q[at + k] + v[i + k] * seconds
            if joint.kind == "free":
                w, x, y, z = q[at + 3 : at + 7]
                unit = spatial.normalized((w, x, y, z))
                moved[at + 3 : at + 7] = spatial.integrated(unit, Vec(v[i + 3 : i + 6]), seconds)
        return tuple(moved)


class _Parameters(NamedTuple):
    """The parameters as scalars; friction is None where every geom has its own."""

    friction: Scalar | None = None
    gravity: Scalar = ONE
    strength: Scalar = ONE
    mass: Scalar = ONE
    damping: Scalar = ONE
    range: Scalar = ONE

    @classmethod
    def of(cls, parameters: Parameters | None) -> _Parameters:
        unknown = set(parameters or ()) - set(PARAMETERS)
        if unknown:
            raise ValueError(
                f"Unknown parameters {', '.join(sorted(unknown))}; known are "
                f"{', '.join(PARAMETERS)}."
            )
        return cls(**{name: Scalar(value) for name, value in (parameters or {}).items()})
