"""A camera that looks at a robot from the side and a little from above, and follows it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

TORSO = 1
"""MuJoCo's index of the body that the camera follows: the first one after the world."""


@dataclasses.dataclass(frozen=True)
class Camera:
    """The camera of a picture, described like MuJoCo's free camera.

    Attributes:
      lookat: [3], the point in the middle of the picture.
      distance: the distance to that point, in m.
      azimuth: the direction of view in degrees; at 90 the robot runs to the right.
      elevation: the angle of view in degrees; below 0 the camera looks down.
      fovy: the vertical field of view in degrees.
    """

    lookat: np.ndarray
    distance: float = 3.7
    azimuth: float = 80.0
    elevation: float = -16.0
    fovy: float = 45.0

    @classmethod
    def following(cls, model: Any, data: Any) -> Camera:
        """Return a camera that follows the torso at a constant height, so that a fall shows.

        Args:
          model: MuJoCo's model of a robot that stands on z = 0.
          data: MuJoCo's data, with positions of the bodies.
        """
        height = 0.6 * model.body_pos[TORSO, 2]
        return cls(np.array([*data.xpos[TORSO, :2], height]), fovy=model.vis.global_.fovy)

    @property
    def axes(self) -> np.ndarray:
        """The directions to the right, up and forward [3, 3]."""
        azimuth, elevation = np.radians([self.azimuth, self.elevation])
        cos, sin = np.cos(azimuth), np.sin(azimuth)
        forward = [np.cos(elevation) * cos, np.cos(elevation) * sin, np.sin(elevation)]
        up = [-np.sin(elevation) * cos, -np.sin(elevation) * sin, np.cos(elevation)]
        return np.array([[sin, -cos, 0.0], up, forward])

    @property
    def position(self) -> np.ndarray:
        """The position of the camera [3]."""
        return self.lookat - self.distance * self.axes[2]

    def focal(self, height: int) -> float:
        """Return the pixels that 1 m takes at a distance of 1 m, in a picture of that height."""
        return height / 2 / np.tan(np.radians(self.fovy) / 2)

    def project(self, points: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
        """Return pixels […, 2] from the top left, and depths […] in m, of points […, 3].

        Pixels are meaningful where the depth is above 0.
        """
        right, up, depth = np.moveaxis((points - self.position) @ self.axes.T, -1, 0)
        scale = self.focal(height) / np.where(depth > 0, depth, np.nan)
        return np.stack([width / 2 + right * scale, height / 2 - up * scale], axis=-1), depth
