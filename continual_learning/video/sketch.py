"""Pictures of a robot made of lines and circles, by NumPy and Pillow without OpenGL."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from continual_learning.video.camera import TORSO, Camera

_mujoco: Any = mujoco  # its names have no types

Color = tuple[int, int, int]

SMOOTH = 2
"""Pictures are drawn larger by this factor and then reduced, which smooths the edges."""

SKY: Color = (236, 242, 248)
LIGHT: Color = (217, 223, 230)
DARK: Color = (193, 201, 211)
INK: Color = (92, 103, 117)
SHADOW: Color = (70, 80, 96)
LIMBS: tuple[Color, ...] = ((205, 92, 52), (228, 150, 74), (62, 104, 150))
"""Colors of the torso, of the parts attached to it, and of the ends."""

TILE = 1.0  # m
FAR = 24  # tiles into the distance
NEAR = 0.1  # m from the camera; nearer points are not drawn


class _Shape(NamedTuple):
    """A capsule, or a ball if both ends are equal.

    Attributes:
      ends: [2, 3], the centers of the two ends.
      radius: the radius in m.
      color: the color of its middle.
    """

    ends: np.ndarray
    radius: float
    color: Color


class Sketch:
    """A drawer of a robot on a checkered ground with tiles of 1 m and their x coordinates.

    Capsules and balls have their true shapes; other shapes are drawn as balls around them.

    Args:
      model: MuJoCo's model of the robot.
      width: the width of a picture in pixels.
      height: the height of a picture in pixels.
    """

    def __init__(self, model: Any, width: int, height: int):
        self._model = model
        self._size = SMOOTH * width, SMOOTH * height
        self._data: Any = _mujoco.MjData(model)
        self._font = ImageFont.load_default(max(9 * SMOOTH, self._size[1] // 28))

    def frame(self, q: np.ndarray) -> np.ndarray:
        """Return a picture uint8 [height, width, 3] of the robot at positions `q` [q_size]."""
        self._data.qpos[:] = q
        _mujoco.mj_forward(self._model, self._data)
        camera = Camera.following(self._model, self._data)
        image = Image.new("RGB", self._size, SKY)
        self._ground(image, camera)
        shapes = self._shapes()
        self._shadow(image, camera, shapes)
        self._robot(image, camera, shapes)
        return np.asarray(image.reduce(SMOOTH))

    def close(self) -> None:
        """Do nothing: a sketch holds no resources."""

    def _shapes(self) -> list[_Shape]:
        model, data = self._model, self._data
        shapes = []
        for geom in range(model.ngeom):
            body, kind = model.geom_bodyid[geom], model.geom_type[geom]
            if body == 0:  # the ground
                continue
            radius, reach = float(model.geom_rbound[geom]), 0.0
            if kind == _mujoco.mjtGeom.mjGEOM_CAPSULE:
                radius, reach = map(float, model.geom_size[geom, :2])
            axis = reach * data.geom_xmat[geom].reshape(3, 3)[:, 2]
            ends = data.geom_xpos[geom] + np.array([[-1.0], [1.0]]) * axis
            part = 0 if body == TORSO else 1 if body in model.body_parentid else 2
            shapes.append(_Shape(ends, radius, LIMBS[part]))
        return shapes

    def _ground(self, image: Image.Image, camera: Camera) -> None:
        draw = ImageDraw.Draw(image)
        width, height = self._size
        ahead = camera.axes[2] * [1, 1, 0]
        (_, horizon), _ = camera.project(camera.position + 1e6 * ahead, width, height)
        draw.rectangle([0, horizon, width, height], LIGHT)
        x, y = np.floor(camera.lookat[:2] / TILE)
        columns, rows = np.meshgrid(x + np.arange(-FAR, FAR), y + np.arange(-4, FAR))
        dark = (columns + rows) % 2 == 0
        corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
        tiles = np.stack([columns[dark], rows[dark], 0 * rows[dark]], axis=-1)
        pixels, depths = camera.project(TILE * (tiles[:, None] + corners), width, height)
        ahead = depths.min(axis=1) > NEAR
        for polygon, depth in zip(pixels[ahead], depths[ahead].mean(axis=1), strict=True):
            if polygon[:, 0].max() > 0 and polygon[:, 0].min() < width:
                fading = min(1.0, depth / (FAR * TILE))
                draw.polygon(list(polygon.ravel()), _mixed(DARK, LIGHT, fading))
        side = np.round(2 * camera.lookat[1]) / 2 - 0.7  # near enough to be in the picture
        for number in range(int(x) - 6, int(x) + 8):
            at = np.array([[number * TILE, side, 0.0], [number * TILE, side - 0.15, 0.0]])
            line, depth = camera.project(at, width, height)
            if depth.min() > NEAR:
                draw.line(list(line.ravel()), INK, SMOOTH)
                draw.text(tuple(line[1]), f"{number * TILE:g}", INK, self._font, "ma")

    def _shadow(self, image: Image.Image, camera: Camera, shapes: list[_Shape]) -> None:
        """Draw the shadow of a light right above the robot."""
        mask = Image.new("L", self._size)
        draw = ImageDraw.Draw(mask)
        turns = np.linspace(-np.pi / 2, np.pi / 2, 12)
        for shape in shapes:
            along = shape.ends[1, :2] - shape.ends[0, :2]
            heading = np.arctan2(along[1], along[0])
            angles = np.concatenate([heading + np.pi + turns, heading + turns])
            rim = shape.radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
            flat = np.repeat(shape.ends[:, :2], len(turns), axis=0) + rim
            points = np.pad(flat, ((0, 0), (0, 1)))
            pixels, _ = camera.project(points, *self._size)
            draw.polygon(list(pixels.ravel()), 90)
        image.paste(SHADOW, mask=mask)

    def _robot(self, image: Image.Image, camera: Camera, shapes: list[_Shape]) -> None:
        """Draw the shapes, the farthest first."""
        draw = ImageDraw.Draw(image)
        focal = camera.focal(self._size[1])
        ends, depths = camera.project(np.stack([s.ends for s in shapes]), *self._size)
        for i in np.argsort(-depths.mean(axis=1)):
            color, radii = shapes[i].color, shapes[i].radius * focal / depths[i]
            _capsule(draw, ends[i], radii + SMOOTH, _mixed(color, (0, 0, 0), 0.55))
            _capsule(draw, ends[i], radii, color)
            lit = ends[i] - np.stack([0.15 * radii, 0.35 * radii], axis=-1)
            _capsule(draw, lit, 0.4 * radii, _mixed(color, (255, 255, 255), 0.3))


def _capsule(draw: ImageDraw.ImageDraw, ends: np.ndarray, radii: np.ndarray, fill: Color) -> None:
    """Draw a capsule with `ends` [2, 2] and `radii` [2] in pixels."""
    along = ends[1] - ends[0]
    across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-6)
    sides = np.stack([ends + radii[:, None] * across, ends - radii[:, None] * across])
    draw.polygon([*sides[0].ravel(), *sides[1, ::-1].ravel()], fill)
    for (x, y), radius in zip(ends, radii, strict=True):
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill)


def _mixed(color: Color, other: Color, share: float) -> Color:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(color, other, strict=True))
    return red, green, blue
