"""A headless Chromium, spoken to through a pipe: no port is opened, no network is used."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
# How long an answer may take before the browser counts as dead.
PATIENCE = 120


def executable() -> str | None:
    return next(filter(None, map(shutil.which, EXECUTABLES)), None)


class Browser:
    """A browser with one page. ``complaints`` are what the console, the policy of the page and
    uncaught errors said; ``requests`` the addresses that were asked for."""

    def __init__(self, path: str, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._events, events = os.pipe()
        self._buffer = b""
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        kept = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, events)]

        def connect() -> None:
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        self._process = subprocess.Popen(
            [
                path, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                "--disable-background-networking", "--disable-component-update", "--no-first-run",
                "--disable-dev-shm-usage", f"--user-data-dir={profile}", "about:blank",
            ],
            close_fds=False, preexec_fn=connect, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (commands, events, *kept):
            os.close(end)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        try:
            self._call("Browser.close")
        except (OSError, EOFError):
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._commands)
        os.close(self._events)

    def open(self, path: Path, fragment: str = "") -> None:
        """Show a file; what was said and asked before is forgotten."""
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=f"{path.as_uri()}{fragment}")
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait(self, expression: str) -> None:
        """Until the expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """What JavaScript gives. It runs as a script of the browser, not of the page."""
        given = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in given, given
        return given["result"].get("value")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the first element that fits."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            "return {x: r.x + r.width / 2, y: r.y + r.height / 2}; })()"
        )
        self.move(place)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def move(self, place: dict[str, float]) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **place)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      **({"text": text} if kind == "keyDown" and text else {}))  # fmt: skip

    def picture(self, path: Path, *, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to the page."""
        return self._call(method, session=self._session, **parameters)

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._send(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._commands, data) :]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._events, 1 << 16)
            if not piece:
                raise EOFError("the browser has ended")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method", ""), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
