"""Pictures as an MP4 or GIF video; a file exists only when it is complete."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from continual_learning import extras
from continual_learning.schema.errors import StudyError
from continual_learning.studies.store.files import draft_of


def check_path(path: Path, force: bool = False) -> None:
    """Raise a StudyError unless a video may be written there; call it before the work.

    Args:
      path: the path of the file.
      force: whether an existing file may be replaced.
    """
    if path.suffix.lower() not in _WRITERS:
        valid = ", ".join(f"{path.stem or 'video'}{suffix}" for suffix in _WRITERS)
        raise StudyError(f"{path}: a video must end with .mp4 or .gif, such as {valid}.")
    if path.is_dir():
        raise StudyError(f"{path} is a folder: name a file in it.")
    if path.exists() and not force:
        raise StudyError(f"{path} already exists: choose another name, or replace it (--force).")


def write(path: Path, frames: Iterable[np.ndarray], fps: float) -> int:
    """Write a video; it replaces a file at `path` only when it is complete.

    Args:
      path: a path that `check_path` allows; missing folders are created.
      frames: at least one picture uint8 [height, width, 3], all of one size, which is even for MP4.
      fps: the frames in a second. A GIF rounds the time of a frame to hundredths of a second.

    Returns:
      The number of frames.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft, counted = draft_of(path), _Counted(frames)
    try:
        _WRITERS[path.suffix.lower()](draft, iter(counted), fps)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return counted.count


class _Counted:
    """An iterable that counts its items."""

    def __init__(self, frames: Iterable[np.ndarray]):
        self._frames = frames
        self.count = 0

    def __iter__(self) -> Iterator[np.ndarray]:
        for frame in self._frames:
            self.count += 1
            yield frame


def _write_mp4(path: Path, frames: Iterator[np.ndarray], fps: float) -> None:
    ffmpeg: Any = extras.load("imageio_ffmpeg")
    first = next(frames)
    size = f"{first.shape[1]}x{first.shape[0]}"
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", f"{fps:.6g}", "-i", "-"]
    # Every player knows H.264 in yuv420p; browsers need the index at the front.
    wanted = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart"]
    words = [ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *given, *wanted]
    words += ["-f", "mp4", f"file:{path}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe) as process:
        assert process.stdin is not None and process.stderr is not None
        try:
            process.stdin.write(first.tobytes())
            for frame in frames:
                process.stdin.write(frame.tobytes())
            process.stdin.close()
        except BrokenPipeError:  # ffmpeg has ended, and its output says why
            pass
        except BaseException:
            process.kill()
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode:
        raise OSError(f"ffmpeg could not write {path}: {said or process.returncode}")


def _write_gif(path: Path, frames: Iterator[np.ndarray], fps: float) -> None:
    # Without dithering, parts that stand still have the same colors in every frame.
    images = (Image.fromarray(f).quantize(256, dither=Image.Dither.NONE) for f in frames)
    next(images).save(
        path,
        format="GIF",
        save_all=True,
        append_images=images,
        duration=10 * max(1, round(100 / fps)),
        loop=0,
    )


_WRITERS = {".mp4": _write_mp4, ".gif": _write_gif}
