"""A report that follows running studies: a server with one page, for this machine alone."""

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
from continual_learning.studies.folder import open_studies

HOST = "127.0.0.1"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine in requests. A web page elsewhere can point its own name at this
address (DNS rebinding), and requests with another name are refused."""

SECONDS = 1.0
"""The seconds between two looks at the folders."""


class Live:
    """The newest page of some studies.

    Attributes:
      version: a text that changes whenever the studies change.
      page: the HTML of this version.
    """

    def __init__(self, folders: Sequence[Path]):
        self._folders = list(folders)
        self._failed = ""
        self.version, self.page = "", b""
        self.refresh()

    def refresh(self) -> None:
        """Make the page again if the studies have changed; raise if they cannot be read."""
        version = self._fingerprint()
        if version != self.version:
            words = " ".join(["continual report", *map(str, self._folders), "--watch"])
            self.page = make(self._folders, command=words, version=version).encode()
            self.version = version

    def follow(self, stopped: threading.Event) -> None:
        """Keep the page current. While a study cannot be read, the last page stays."""
        while not stopped.wait(SECONDS):
            try:
                self.refresh()
                self._failed = ""
            except Exception as error:  # The server goes on while a study is changed.
                if str(error) != self._failed:
                    print(f"continual: {error}", file=sys.stderr, flush=True)
                self._failed = str(error)

    def _fingerprint(self) -> str:
        """Return a hash of the names, sizes and times of all files that the page depends on."""
        found = []
        for folder in (each for given in self._folders for each in open_studies(given)):
            for file in folder.files:
                facts = file.stat()
                found.append((str(file), facts.st_size, facts.st_mtime_ns))
        return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def watch(folders: Sequence[Path], port: int = 0) -> None:
    """Show the page of studies until it is interrupted (Ctrl-C).

    Args:
      folders: the folders of the studies.
      port: the port of the server; 0 for any free port.
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
    """Yield a bound server whose page is kept current; the caller runs `serve_forever`."""

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
        """Ignore a reader that has closed the connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """The handler, which serves the page at `/` and its version at `/version`, but no files."""

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
        """Log nothing, because every open page sends a request every few seconds."""
