"""Videos of the policies of studies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from continual_learning import extras
from continual_learning.envs.errors import OpenGLError
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies.contents import load_plugins
from continual_learning.studies.folder import open_study
from continual_learning.video import opengl
from continual_learning.video.watchable import check_watchable

if TYPE_CHECKING:  # MuJoCo must not be imported before its platform is chosen
    from continual_learning.video.policy import Played

Renderer = Literal["auto", "mujoco", "sketch"]
RENDERERS: tuple[Renderer, ...] = ("auto", "mujoco", "sketch")

SIZE = (480, 360)
STEPS = 500
FPS = 30.0


class Drawer(Protocol):
    """An object that draws a robot."""

    def frame(self, q: np.ndarray) -> np.ndarray:
        """Return a picture uint8 [height, width, 3] of the robot at positions `q` [q_size]."""
        ...

    def close(self) -> None:
        """Free what the drawer holds."""
        ...


def render(
    path: Path,
    out: Path | None = None,
    *,
    method: str | None = None,
    seed: int | None = None,
    lane: Mapping[str, float] | None = None,
    frictions: Sequence[float] = (),
    changes: Mapping[str, float] | None = None,
    steps: int = STEPS,
    stochastic: bool = False,
    renderer: Renderer = "auto",
    size: tuple[int, int] = SIZE,
    fps: float = FPS,
    force: bool = False,
) -> Path:
    """Write a video of the policy in a study's newest checkpoint, in real time.

    Args:
      path: the folder of the study; another process may still write to it.
      out: the file, .mp4 or .gif; by default an MP4 in the current folder, named after the
        experiment, the method, the seed and the lane's own numbers.
      method: the method; it may be left out if there is only one.
      seed: the seed; by default the first.
      lane: {name: number} to choose among a seed's lanes; the first lane that has these numbers.
      frictions: frictions, with a panel for each; by default that of the task trained on last.
      changes: {task parameter: value} for all panels.
      steps: the number of environment steps.
      stochastic: whether actions are sampled as in training; otherwise they are the mean actions.
      renderer: "mujoco" (OpenGL), "sketch", or "auto" for MuJoCo's renderer if it starts.
      size: the width and height of a panel, both even.
      fps: the largest number of frames in a second; steps are skipped to stay below it.
      force: whether an existing file may be replaced.

    Returns:
      The path of the file.
    """
    load_plugins(path)
    check_watchable(path, open_study(path).study.experiment)
    for extra in ("brax", "video"):
        extras.require(extra)
    _check(steps, renderer, size, fps)
    if renderer != "sketch":
        opengl.choose_platform()
    opengl.import_mujoco()  # fails here, before modules that need MuJoCo are imported
    from continual_learning.studies import launch
    from continual_learning.video import policy, writing

    launch.prepare()
    trained = policy.trained(path, method, seed, lane)
    named = [trained.experiment.name, trained.method, f"seed{trained.seed}"]
    own = [f"{name}={value:g}" for name, value in trained.numbers.items()]
    out = out or Path(f"{'_'.join([*named, *own])}.mp4")
    writing.check_path(out, force)
    tasks = policy.tasks_of(trained, frictions, changes)
    if trained.alike > 1:
        print(
            f"{trained.alike} lanes have seed {trained.seed}{' and these numbers' * bool(lane)}; "
            f"this is the first, {', '.join(own)}. Choose another with --lane NAME=NUMBER."
        )
    drawer = open_drawer(renderer, trained.robot.mujoco_model, size)
    try:
        print(
            f"{', '.join([*named[:2], f'seed {trained.seed}', *own])}, in task {trained.task}: "
            f"{steps} steps. The first time, compiling them takes a while.",
            flush=True,
        )
        played = policy.play(trained, tasks, steps, stochastic=stochastic)
        dt, usual = trained.robot.dt, trained.env.parameters
        stride = math.ceil(1 / (dt * fps) - 1e-6)
        pictures = frames(drawer, played, tasks, usual, dt=dt, stride=stride)
        rate = 1 / (dt * stride)
        count = writing.write(out, pictures, rate)
    finally:
        drawer.close()
    print(f"{out}: {count} frames, {rate:.3g} a second")
    return out


def open_drawer(renderer: Renderer, model: Any, size: tuple[int, int]) -> Drawer:
    """Return MuJoCo's renderer or a sketch; for "auto", the sketch if OpenGL does not work.

    Args:
      renderer: one of `RENDERERS`.
      model: MuJoCo's model of the robot.
      size: the width and height of a picture.
    """
    if renderer != "sketch":
        try:
            return opengl.OpenGL(model, *size)
        except OpenGLError as error:
            if renderer == "mujoco":
                raise
            print(f"A sketch is drawn. {error}")
    from continual_learning.video.sketch import Sketch

    return Sketch(model, *size)


def frames(
    drawer: Drawer,
    played: Played,
    tasks: Sequence[Mapping[str, float]],
    usual: Mapping[str, float],
    *,
    dt: float,
    stride: int,
) -> Iterator[np.ndarray]:
    """Yield labeled pictures of all tasks side by side, for every `stride`-th step.

    Args:
      drawer: the drawer of one panel.
      played: the recorded episodes [tasks, steps, …].
      tasks: the parameters of the tasks.
      usual: values that labels leave out.
      dt: the seconds in a step.
      stride: the number of steps between pictures; 1 for every step.
    """
    from continual_learning.video import panels

    for step in range(0, played.q.shape[1], stride):
        row = []
        for i, task in enumerate(tasks):
            moment = panels.moment_text(
                played.length[i, step] * dt,
                played.speed[i, step],
                played.total[i, step],
                played.episode[i, step],
            )
            lines = panels.task_text(task, usual), moment
            row.append(panels.labeled(drawer.frame(played.q[i, step]), lines))
        yield panels.side_by_side(row)


def _check(steps: int, renderer: str, size: tuple[int, int], fps: float) -> None:
    if renderer not in RENDERERS:
        raise unknown("renderer", renderer, RENDERERS)
    if steps < 1:
        raise StudyError(f"steps must be at least 1, got {steps}.")
    if not 0 < fps < math.inf:
        raise StudyError(f"fps must be above 0, got {fps:g}.")
    if any(side < 16 or side > 4096 or side % 2 for side in size):
        width, height = size
        raise StudyError(
            f"size must be two even numbers from 16 to 4096, such as 480x360; got {width}x{height}."
        )
