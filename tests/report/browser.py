"""Chromium, driven over the pipe of its DevTools protocol: nothing needs to be installed for it.

As a program it takes pictures of a page: python -m tests.report.browser PAGE FOLDER
"""

import base64
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--remote-debugging-pipe",
]
START = """
import fcntl, os, sys
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for number, place in zip(high, (3, 4)):
    os.dup2(number, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60  # seconds, for a machine that has other things to do


def find() -> str | None:
    """The browser, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One browser with one page.

    Attributes:
      events: what the page did, as (name, parameters): console messages, requests, dialogs.
    """

    def __init__(self, path: str):
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._profile = tempfile.mkdtemp()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self._session: str | None = None
        # The browser reads what it is told from descriptor 3 and writes to 4.
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        words = [path, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", START, str(read), str(write), *words],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answers.get(timeout=PATIENCE)
            if answer["id"] == self._number:
                break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _listen(self) -> None:
        with os.fdopen(self._read, "rb") as pipe:
            rest = b""
            while data := pipe.read1(1 << 20):
                *messages, rest = (rest + data).split(b"\0")
                for text in messages:
                    message = json.loads(text)
                    if "id" in message:
                        self._answers.put(message)
                    else:
                        self.events.append((message["method"], message["params"]))

    def open(self, address: str) -> None:
        """Loads a page and waits until it says that it is ready."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait("document.documentElement.dataset.ready === 'true'")
        self.settle()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of what it promises."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Waits until an expression is true; across pages, so asked anew each time."""
        for _ in range(PATIENCE * 20):
            try:
                if self.run(condition):
                    return
            except RuntimeError:  # the page is being replaced
                pass
            threading.Event().wait(0.05)
        raise AssertionError(f"never true: {condition}")

    def settle(self) -> None:
        """Waits until all charts that can be seen are drawn."""
        frame = "new Promise((done) => requestAnimationFrame(done))"
        for _ in range(4):  # what scrolls into view is noticed a frame or two later
            self.run(frame)
        self.wait("!document.querySelector('[data-drawing]')")

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def dark(self, on: bool) -> None:
        wanted = {
            "prefers-color-scheme": "dark" if on else "light",
            "prefers-reduced-motion": "reduce",
        }
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.call("Emulation.setEmulatedMedia", media="", features=features)

    def picture(self, whole: bool = True) -> bytes:
        """A PNG of the page, or of what can be seen of it."""
        options = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            options = {"clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", **options)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def errors(self) -> list[str]:
        """Errors and warnings of the console, and exceptions."""
        found = []
        for name, event in self.events:
            if name == "Runtime.exceptionThrown":
                found.append(str(event["exceptionDetails"]))
            if name == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
                found.append(event["entry"]["text"])
            if name == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning"):
                found.append(str(event["args"]))
        return found

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        sent = (e for name, e in self.events if name == "Network.requestWillBeSent")
        return [event["request"]["url"] for event in sent]


if __name__ == "__main__":
    page, folder = Path(sys.argv[1]).resolve().as_uri(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(find() or "chromium") as browser:
        for name, width, dark in (
            ("light", 1280, False),
            ("dark", 1280, True),
            ("phone", 360, False),
        ):
            browser.size(width, 800, mobile=width < 400)
            browser.dark(dark)
            browser.open(page)
            height = browser.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
            browser.size(width, height, mobile=width < 400)
            browser.settle()
            (folder / f"{name}.png").write_bytes(browser.picture())
        browser.size(1280, 900)
        (folder / "print.pdf").write_bytes(browser.pdf())
        print(browser.errors(), browser.requests())
