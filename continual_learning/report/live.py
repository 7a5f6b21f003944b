"""A report that follows running studies: a server for this machine alone, with one page."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from continual_learning.report.page import make
from continual_learning.schema.errors import StudyError
from continual_learning.studies.contents import parts
from continual_learning.studies.store.parts import Parts

HOST = "127.0.0.1"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names by which this machine may be asked. A web page elsewhere can point a name of its own at
this address (DNS rebinding); its name then gives it away."""

SECONDS = 1.0
"""Between two looks at the folders."""


class Live:
    """The newest page of some studies.

    Attributes:
      version: changes whenever the studies do.
      page: the HTML of that version.
    """

    def __init__(self, folders: Sequence[Path]):
        self._folders = list(folders)
        self._failed = ""
        self.version, self.page = "", b""
        self.refresh()

    def refresh(self) -> None:
        """Makes the page anew if the studies have changed; raises if they cannot be read."""
        version = self._fingerprint()
        if version != self.version:
            words = " ".join(["continual report", *map(str, self._folders), "--watch"])
            self.page = make(self._folders, command=words, version=version).encode()
            self.version = version

    def follow(self, stopped: threading.Event) -> None:
        """Keeps the page fresh. While a study cannot be read, the last page stays."""
        while not stopped.wait(SECONDS):
            try:
                self.refresh()
                self._failed = ""
            except Exception as error:  # a study that is being changed must not end the server
                if str(error) != self._failed:
                    print(f"continual: {error}", file=sys.stderr, flush=True)
                self._failed = str(error)

    def _fingerprint(self) -> str:
        """Of the names, sizes and times of all files that the page depends on."""
        found = []
        for folder in (each.path for given in self._folders for each in parts(given)):
            kept = Parts(folder / "metrics")
            files = [file for method in kept.methods() for file in kept.of(method).values()]
            names = ("study.toml", "environment.json", "log.txt")
            for file in [*files, *(folder / name for name in names)]:
                if file.exists():
                    facts = file.stat()
                    found.append((str(file), facts.st_size, facts.st_mtime_ns))
        return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def watch(folders: Sequence[Path], port: int = 0) -> None:
    """Shows the page of studies until it is interrupted (Ctrl-C).

    Args:
      folders: of the studies.
      port: where; 0: any that is free.
    """
    live = Live(folders)
    with serve(live, port) as server:
        print(f"http://{HOST}:{server.server_port}/  (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


@contextmanager
def serve(live: Live, port: int) -> Iterator[ThreadingHTTPServer]:
    """A server that is bound, with its page kept fresh; `serve_forever` is the caller's."""

    class Handler(_Handler):
        pass

    Handler.live = live
    try:
        server = _Server((HOST, port), Handler)
    except OSError as error:
        raise StudyError(f"Cannot use port {port}: {error.strerror}. Name another one.") from None
    stopped = threading.Event()
    follower = threading.Thread(target=live.follow, args=(stopped,), daemon=True)
    follower.start()
    try:
        yield server
    finally:
        stopped.set()
        server.server_close()
        follower.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a reader that went away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """The page at `/`, its version at `/version`; no files."""

    live: Live
    timeout = 30

    def do_GET(self) -> None:
        host = self.headers.get("Host", "")
        if host not in LOOPBACK and host.rpartition(":")[0] not in LOOPBACK:
            self._answer(403, b"Only for this machine: ask for 127.0.0.1.\n", "text/plain")
        elif self.path == "/":
            self._answer(200, self.live.page, "text/html")
        elif self.path == "/version":
            self._answer(200, self.live.version.encode(), "text/plain")
        else:
            self._answer(404, b"There is no such page.\n", "text/plain")

    do_HEAD = do_GET

    def _answer(self, code: int, content: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def version_string(self) -> str:
        return "continual"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: every open page asks every few seconds."""
