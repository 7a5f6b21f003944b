"""A camera that looks at a robot from the side and a little from above, and follows it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

TORSO = 1
"""MuJoCo's number of the body that is followed: the first after the world."""


@dataclasses.dataclass(frozen=True)
class Camera:
    """Where a picture is taken from, in the terms of MuJoCo's free camera.

    Attributes:
      lookat: [3], the point in the middle of the picture.
      distance: from there, in m.
      azimuth: direction in which it looks, in degrees; at 90 the robot runs to the right.
      elevation: likewise; below 0 it looks down.
      fovy: vertical field of view, in degrees.
    """

    lookat: np.ndarray
    distance: float = 3.7
    azimuth: float = 80.0
    elevation: float = -16.0
    fovy: float = 45.0

    @classmethod
    def following(cls, model: Any, data: Any) -> Camera:
        """Looks at the torso from where it is now; heights stay, so that a fall shows.

        Args:
          model: MuJoCo's, of a robot that stands on z = 0.
          data: MuJoCo's, with positions of the bodies.
        """
        height = 0.6 * model.body_pos[TORSO, 2]
        return cls(np.array([*data.xpos[TORSO, :2], height]), fovy=model.vis.global_.fovy)

    @property
    def axes(self) -> np.ndarray:
        """[3, 3]: to the right, up, and forward."""
        azimuth, elevation = np.radians([self.azimuth, self.elevation])
        cos, sin = np.cos(azimuth), np.sin(azimuth)
        forward = [np.cos(elevation) * cos, np.cos(elevation) * sin, np.sin(elevation)]
        up = [-np.sin(elevation) * cos, -np.sin(elevation) * sin, np.cos(elevation)]
        return np.array([[sin, -cos, 0.0], up, forward])

    @property
    def position(self) -> np.ndarray:
        """[3], where it is."""
        return self.lookat - self.distance * self.axes[2]

    def focal(self, height: int) -> float:
        """Pixels of 1 m at a distance of 1 m, in a picture of that height."""
        return height / 2 / np.tan(np.radians(self.fovy) / 2)

    def project(self, points: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
        """Pixels […, 2], from the top left, and depths […] in m of points […, 3].

        Pixels make sense where the depth is above 0.
        """
        right, up, depth = np.moveaxis((points - self.position) @ self.axes.T, -1, 0)
        scale = self.focal(height) / np.where(depth > 0, depth, np.nan)
        return np.stack([width / 2 + right * scale, height / 2 - up * scale], axis=-1), depth
