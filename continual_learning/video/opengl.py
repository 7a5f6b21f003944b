"""Pictures by MuJoCo's own renderer, which needs OpenGL."""

from __future__ import annotations

import copy
import ctypes.util
import os
import sys
import warnings
from typing import Any, ClassVar

import numpy as np

from continual_learning.envs.errors import OpenGLError
from continual_learning.video.camera import Camera

_ADVICE = (
    "Set MUJOCO_GL before the start: to egl (needs no display, but the driver of a GPU or the "
    "packages libegl1 and libgl1-mesa-dri), to osmesa (needs no display, but the package "
    "libosmesa6) or to glfw (needs a display)"
)


def choose_platform() -> None:
    """Make MuJoCo use EGL if there is no display, EGL is installed and MUJOCO_GL is not set.

    MuJoCo itself would use GLFW, which needs a display. It reads MUJOCO_GL when it is imported;
    after that, this function does nothing.
    """
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform != "linux" or display or "mujoco" in sys.modules:
        return
    if not os.environ.get("MUJOCO_GL") and ctypes.util.find_library("EGL"):
        os.environ["MUJOCO_GL"] = "egl"


def import_mujoco() -> Any:
    """Return the module of MuJoCo; raise an OpenGLError if MUJOCO_GL keeps it from loading."""
    try:
        import mujoco
    except ModuleNotFoundError:
        raise
    except Exception as error:  # the libraries of a platform raise errors of any kind
        chosen = os.environ.get("MUJOCO_GL", "")
        raise OpenGLError(
            f"MuJoCo cannot be imported with MUJOCO_GL={chosen}: {_reason(error)}. {_ADVICE}, "
            "or to off, for a sketch."
        ) from error
    return mujoco


class OpenGL:
    """A drawer that shows a robot as MuJoCo does; `close` it after use.

    Args:
      model: MuJoCo's model of the robot.
      width: the width of a picture in pixels.
      height: the height of a picture in pixels.

    Raises:
      OpenGLError: OpenGL does not work here.
    """

    # MuJoCo ends the process if it is started again after a failure.
    _failure: ClassVar[str | None] = None

    def __init__(self, model: Any, width: int, height: int):
        if OpenGL._failure is not None:
            raise OpenGLError(OpenGL._failure)
        mujoco = import_mujoco()
        self._mujoco = mujoco
        self._model = copy.copy(model)
        buffer = self._model.vis.global_
        buffer.offwidth = max(buffer.offwidth, width)
        buffer.offheight = max(buffer.offheight, height)
        self._data = mujoco.MjData(self._model)

        class Renderer(mujoco.Renderer):
            # MuJoCo also closes a renderer that could not start, and needs these attributes for it.
            _gl_context = None
            _mjr_context = None

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # GLFW warns about errors that are raised below
                self._renderer: Any = Renderer(self._model, height, width)
        except Exception as error:  # the libraries of a platform raise errors of any kind
            why = f"MuJoCo's renderer cannot start: {_reason(error)}"
            OpenGL._failure = f"{why}. {_ADVICE}; or draw a sketch."
            raise OpenGLError(OpenGL._failure) from error

    def frame(self, q: np.ndarray) -> np.ndarray:
        """Return a picture uint8 [height, width, 3] of the robot at positions `q` [q_size]."""
        self._data.qpos[:] = q
        self._mujoco.mj_forward(self._model, self._data)
        view = Camera.following(self._model, self._data)
        camera = self._mujoco.MjvCamera()
        camera.type = self._mujoco.mjtCamera.mjCAMERA_FREE
        camera.lookat[:] = view.lookat
        camera.distance, camera.azimuth = view.distance, view.azimuth
        camera.elevation = view.elevation
        self._renderer.update_scene(self._data, camera)
        return self._renderer.render()

    def close(self) -> None:
        """Free what OpenGL holds."""
        self._renderer.close()


def _reason(error: Exception) -> str:
    """Return the type and the message of an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
