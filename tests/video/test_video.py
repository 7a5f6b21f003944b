"""Labels, panels, and files that are complete or not there."""

import re
import subprocess

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from continual_learning.schema.errors import StudyError
from continual_learning.video import panels, writing

USUAL = {"friction": 1.0, "gravity": 1.0, "action_delay": 0.0}


def test_labels():
    assert panels.task_text(USUAL, USUAL) == "friction 1"
    task = {"action_delay": 3.0, "friction": np.float32(0.02), "gravity": 0.5}
    assert panels.task_text(task, USUAL) == "friction 0.02, action delay 3, gravity 0.5"
    assert panels.moment_text(3.21, 0.508, 12.34, 1) == "3.2 s, +0.51 m/s, return 12.3"
    assert panels.moment_text(0, -1, -2, 3) == "0.0 s, -1.00 m/s, return -2.0, episode 3"


@pytest.mark.parametrize("shade", [0, 255])
def test_a_label_is_readable_on_any_ground(shade):
    frame = np.full((120, 160, 3), shade, np.uint8)
    lines = panels.labeled(frame, ["friction 1", "3 s"])
    assert np.ptp(lines[:40, :120]) > 200
    assert (lines[60:] == shade).all() and (frame == shade).all()
    one = panels.labeled(frame, ["friction 1"])
    assert (one[:15] == lines[:15]).all() and (one != lines).any()


@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 1), (3, 1, 3), (4, 2, 2), (5, 2, 3)])
def test_panels_stand_side_by_side(count, rows, columns):
    shown = [np.full((20, 30, 3), i, np.uint8) for i in range(count)]
    whole = panels.side_by_side(shown)
    assert whole.shape == (20 * rows, 30 * columns, 3)
    middles = whole[10::20, 15::30, 0].ravel()
    assert middles.tolist() == [*range(count), *[255] * (rows * columns - count)]


def ramp(count: int):
    for i in range(count):
        frame = np.zeros((48, 64, 3), np.uint8)
        frame[:, : 4 * i + 4] = 10 * i, 100, 200
        yield frame


def decoded(path, width: int, height: int) -> tuple[np.ndarray, str]:
    """The frames [frames, height, width, 3] of a video, and what ffmpeg says of it."""
    words = ["-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    done = subprocess.run([ffmpeg, *words], check=True, capture_output=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3), done.stderr.decode()


def test_a_gif(tmp_path):
    path = tmp_path / "new" / "a.GIF"
    assert writing.write(path, ramp(9), fps=20.0) == 9
    with Image.open(path) as image:
        assert (image.n_frames, image.size, image.info["duration"]) == (9, (64, 48), 50)  # pyright: ignore
        for i, frame in enumerate(ramp(9)):
            image.seek(i)
            np.testing.assert_array_equal(np.asarray(image.convert("RGB")), frame)
    assert [file.name for file in path.parent.iterdir()] == ["a.GIF"]


def test_an_mp4(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_text("old")
    assert writing.write(path, ramp(12), fps=1 / 0.045) == 12
    shown, said = decoded(path, 64, 48)
    assert re.search(r"Video: h264 .*yuv420p.* 64x48.* 22\.22 fps", said)
    assert len(shown) == 12
    for old, new in zip(ramp(12), shown, strict=True):
        assert np.abs(old - new.astype(int)).mean() < 12  # compressed
    assert [file.name for file in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize("name", ["a.mp4", "a.gif"])
def test_what_goes_wrong_leaves_the_old_file(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")

    def broken():
        yield from ramp(3)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        writing.write(path, broken(), 20.0)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_ffmpeg_says_is_told(tmp_path):
    odd = [np.zeros((47, 63, 3), np.uint8)] * 2
    with pytest.raises(OSError, match=r"ffmpeg could not write .*not divisible by 2"):
        writing.write(tmp_path / "a.mp4", odd, 20.0)
    assert not list(tmp_path.iterdir())


def test_paths_are_checked(tmp_path):
    for suffix in ("mp4", "gif", "MP4"):
        writing.check_path(tmp_path / f"new.{suffix}")
    for name in ("a.avi", "a", ".mp4"):
        with pytest.raises(StudyError, match=r"must end with \.mp4 or \.gif"):
            writing.check_path(tmp_path / name)
    there = tmp_path / "there.gif"
    there.mkdir()
    with pytest.raises(StudyError, match="is a folder"):
        writing.check_path(there, force=True)
    file = tmp_path / "there.mp4"
    file.touch()
    with pytest.raises(StudyError, match=r"already exists.*--force"):
        writing.check_path(file)
    writing.check_path(file, force=True)
