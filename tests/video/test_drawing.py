"""Pictures of robots: where things are in them, and what happens without OpenGL."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import mujoco
import numpy as np
import pytest

from continual_learning.envs.errors import OpenGLError
from continual_learning.video import opengl, sketch
from continual_learning.video.camera import Camera
from continual_learning.video.opengl import OpenGL
from continual_learning.video.sketch import Sketch

ROOT = Path(__file__).parents[2]
XML = """
<mujoco>
  <worldbody>
    <light pos="0 0 5"/>
    <geom type="plane" size="40 40 1" rgba="0.2 0.2 0.2 1"/>
    <body pos="0 0 1">
      <freejoint/>
      <geom type="sphere" size="0.1" rgba="1 0 0 1"/>
      <geom type="box" pos="0 0 -0.5" size="0.1 0.1 0.1" rgba="0 0 1 1"/>
      <body pos="0.2 0 0">
        <joint type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.05" rgba="0 1 0 1"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
REST = np.array([0, 0, 1, 1, 0, 0, 0, 0], float)
names = SimpleNamespace(**vars(mujoco))  # without types


@pytest.fixture
def model():
    return names.MjModel.from_xml_string(XML)


# The camera --------------------------------------------------------------------------------------


def test_the_middle_the_right_and_what_is_behind():
    camera = Camera(np.array([5.0, -2.0, 0.5]), azimuth=90.0)
    points = camera.lookat + np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0], [0, -9, 0]])
    pixels, depths = camera.project(points, 400, 300)
    np.testing.assert_allclose(pixels[0], [200, 150])
    np.testing.assert_allclose(depths[0], camera.distance)
    assert pixels[1, 0] > 200 and abs(pixels[1, 1] - 150) < 1e-9  # along x: to the right
    assert pixels[2, 1] < 150 and abs(pixels[2, 0] - 200) < 1e-9  # up
    assert depths[3] > depths[0] > 0 > depths[4]
    assert np.isnan(pixels[4]).all()


def test_the_camera_follows_over_the_ground_alone(model):
    data = names.MjData(model)
    data.qpos[:] = REST
    data.qpos[:3] = 7, 8, 0.3
    names.mj_forward(model, data)
    np.testing.assert_allclose(Camera.following(model, data).lookat, [7, 8, 0.6])


# The sketch --------------------------------------------------------------------------------------


def near(frame, color):
    """Where a picture has about this color."""
    return (np.abs(frame.astype(int) - color).max(axis=-1) < 12).nonzero()


def test_a_sketch_shows_every_part_where_the_camera_sees_it(model):
    drawer = Sketch(model, 200, 150)
    frame = drawer.frame(REST)
    assert frame.shape == (150, 200, 3) and frame.dtype == np.uint8
    data = names.MjData(model)
    data.qpos[:] = REST
    names.mj_forward(model, data)
    camera = Camera.following(model, data)
    torso, limb = sketch.LIMBS[0], sketch.LIMBS[2]
    for color, geoms in ((torso, [1, 2]), (limb, [3])):
        rows, columns = near(frame, color)
        pixels, _ = camera.project(data.geom_xpos[geoms], 200, 150)
        low, high = pixels.min(axis=0) - 25, pixels.max(axis=0) + 25
        assert len(rows) > 30
        assert low[0] < columns.min() and columns.max() < high[0]
        assert low[1] < rows.min() and rows.max() < high[1]
    # The capsule is as long as it is: from 0.2 to 0.7, and its two ends.
    ends, _ = camera.project(np.array([[0.15, 0, 1], [0.75, 0, 1]]), 200, 150)
    _, columns = near(frame, limb)
    assert abs(np.ptp(columns) - np.ptp(ends[:, 0])) < 4


def test_a_sketch_shows_motion(model):
    drawer = Sketch(model, 120, 90)
    still, moved, bent = (REST.copy() for _ in range(3))
    moved[0] += 0.3
    bent[-1] += 1.0
    first = drawer.frame(still)
    np.testing.assert_array_equal(first, drawer.frame(still))
    sky = slice(0, 10)
    for q in (moved, bent):
        frame = drawer.frame(q)
        np.testing.assert_array_equal(frame[sky], first[sky])
        assert (frame != first).any(axis=-1).mean() > 0.01
    # The camera moves along, so that the robot stays where it is and the ground does not.
    torso = near(first, sketch.LIMBS[0])
    assert abs(torso[1].mean() - near(drawer.frame(moved), sketch.LIMBS[0])[1].mean()) < 1.5


# OpenGL ------------------------------------------------------------------------------------------


class FakeRenderer:
    """Notes what it is told, and draws the height of what the camera looks at."""

    made: ClassVar[list] = []

    def __init__(self, model, height, width):
        self.made.append(self)
        self.model, self.shape, self.closed = model, (height, width, 3), False

    def update_scene(self, data, camera):
        self.data, self.camera = data, camera

    def render(self):
        return np.full(self.shape, int(100 * self.camera.lookat[2]), np.uint8)

    def close(self):
        self.closed = True


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(mujoco, "Renderer", FakeRenderer)
    monkeypatch.setattr(OpenGL, "_failure", None)
    monkeypatch.setattr(FakeRenderer, "made", [])
    return FakeRenderer.made


def test_mujocos_renderer_is_told_what_to_draw(model, fake):
    drawer = OpenGL(model, 1000, 700)
    q = REST.copy()
    q[:2] = 4, 5
    frame = drawer.frame(q)
    [renderer] = fake
    assert frame.shape == (700, 1000, 3) and (frame == 60).all()
    # MuJoCo refuses sizes above these; the robot's own model stays as it was.
    assert renderer.model.vis.global_.offwidth >= 1000
    assert renderer.model.vis.global_.offheight >= 700
    assert model.vis.global_.offwidth == 640
    np.testing.assert_allclose(renderer.data.geom_xpos[1], [4, 5, 1])
    np.testing.assert_allclose(renderer.camera.lookat, [4, 5, 0.6])
    assert renderer.camera.type == names.mjtCamera.mjCAMERA_FREE
    assert renderer.camera.elevation == Camera(np.zeros(3)).elevation
    drawer.close()
    assert renderer.closed


def test_where_opengl_does_not_start_the_error_says_what_to_do(model, fake, monkeypatch):
    class Broken(FakeRenderer):
        def __init__(self, *_):
            self.made.append(self)
            raise RuntimeError("no\n  display")

    monkeypatch.setattr(mujoco, "Renderer", Broken)
    for _ in range(2):
        with pytest.raises(OpenGLError, match=r"RuntimeError: no display\. Set MUJOCO_GL.*libegl1"):
            OpenGL(model, 64, 48)
    assert len(fake) == 1  # a second start would end the process


@pytest.mark.parametrize(
    ("variables", "library", "chosen"),
    [
        ({}, "libEGL.so.1", "egl"),
        ({}, None, None),
        ({"DISPLAY": ":0"}, "libEGL.so.1", None),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "libEGL.so.1", None),
        ({"MUJOCO_GL": "osmesa"}, "libEGL.so.1", "osmesa"),
    ],
)
def test_without_a_display_egl_is_chosen(monkeypatch, variables, library, chosen):
    environment = dict(variables)
    modules = {name: module for name, module in sys.modules.items() if name != "mujoco"}
    monkeypatch.setattr(opengl, "sys", SimpleNamespace(platform="linux", modules=modules))
    monkeypatch.setattr(opengl, "os", SimpleNamespace(environ=environment))
    monkeypatch.setattr(opengl.ctypes.util, "find_library", lambda name: library)
    opengl.choose_platform()
    assert environment.get("MUJOCO_GL") == chosen
    modules["mujoco"] = mujoco  # too late
    environment.clear()
    opengl.choose_platform()
    assert not environment


def process(code: str, platform: str) -> str:
    """What a program prints that has MUJOCO_GL set."""
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.environ['MUJOCO_GL'] = {platform!r}\n{code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_platform_that_keeps_mujoco_from_being_imported_is_named():
    code = """
from continual_learning.video import opengl
try: opengl.import_mujoco()
except opengl.OpenGLError as error: print(error)
"""
    said = process(code, "bogus")
    assert said.startswith("MuJoCo cannot be imported with MUJOCO_GL=bogus: RuntimeError")
    assert "or to off" in said


def test_opengl_and_the_sketch_see_the_same():
    """With EGL, where it is installed: a red ball is where `Camera` says."""
    code = """
from tests.video.test_drawing import REST, XML, Camera, OpenGL, OpenGLError, mujoco, np
model = mujoco.MjModel.from_xml_string(XML)
try: drawer = OpenGL(model, 800, 600)
except OpenGLError as error: print("skip", error)
else:
    frame, data = drawer.frame(REST).astype(int), mujoco.MjData(model)
    data.qpos[:] = REST
    mujoco.mj_forward(model, data)
    drawer.close()
    rows, columns = ((frame[..., 0] > 100) & (frame[..., 1:].max(-1) < 60)).nonzero()
    [x, y], _ = Camera.following(model, data).project(data.geom_xpos[1], 800, 600)
    print(len(rows), abs(columns.mean() - x), abs(rows.mean() - y))
"""
    try:
        said = process(code, "egl")
    except AssertionError as error:  # not even MuJoCo can be imported
        pytest.skip(str(error)[-200:])
    if said.startswith("skip"):
        pytest.skip(said)
    seen, x, y = map(float, said.split())
    assert seen > 200 and x < 3 and y < 10  # the light comes from above
