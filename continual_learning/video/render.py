"""From the folder of a study to a video of its policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from continual_learning import extras
from continual_learning.envs.errors import OpenGLError
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies.store import manifest
from continual_learning.studies.study import Study
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
    """Makes pictures of a robot."""

    def frame(self, q: np.ndarray) -> np.ndarray:
        """A picture, uint8 [height, width, 3], of the robot at positions `q` [q_size]."""
        ...

    def close(self) -> None:
        """Frees what it holds."""
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
    """Writes a video, in real time, of the policy in a study's newest checkpoint.

    Args:
      path: folder of the study, which another process may be writing.
      out: the file, .mp4 or .gif; if left out, an MP4 in the current folder, named after the
        experiment, the method, the seed and the lane's own numbers.
      method: may be left out if there is only one.
      seed: the first if left out.
      lane: {name: number}, where lanes of a seed differ; of those that have them, the first.
      frictions: a panel each; if left out, that of the task that was trained on last.
      changes: {task parameter: value}, in all panels.
      steps: of the environment.
      stochastic: whether actions are drawn, as in training, or the mean ones.
      renderer: "mujoco" (OpenGL), "sketch", or "auto": MuJoCo's if it starts.
      size: width and height of a panel, even.
      fps: most frames in a second; steps are left out to stay below.
      force: whether a file that is there may be replaced.

    Returns:
      The file.
    """
    check_watchable(path, Study.from_dict(manifest.read(path)[0]).experiment)
    for extra in ("brax", "video"):
        extras.require(extra)
    _check(steps, renderer, size, fps)
    if renderer != "sketch":
        opengl.choose_platform()
    opengl.import_mujoco()  # said here if it cannot be, before what needs it is imported
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
    """MuJoCo's renderer, or a sketch; for "auto", the sketch where OpenGL does not work.

    Args:
      renderer: one of `RENDERERS`.
      model: MuJoCo's, of the robot.
      size: width and height of a picture.
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
    """Pictures of all tasks side by side, labelled, of every `stride`-th step.

    Args:
      drawer: of one panel.
      played: what happened, [tasks, steps, …].
      tasks: parameters of each.
      usual: values that need not be told.
      dt: seconds in a step.
      stride: 1 for every step.
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
            row.append(panels.labelled(drawer.frame(played.q[i, step]), lines))
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
