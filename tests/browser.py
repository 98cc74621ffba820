"""A headless Chromium that shows a page without a network, driven through the DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
_OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab. Events, such as those of the console and of the network, are in ``events``."""

    def __init__(self, to: BinaryIO, from_: BinaryIO) -> None:
        self._to, self._from = to, from_
        self._ids = itertools.count(1)
        self._session: dict[str, str] = {}
        self._read = b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a method of the protocol."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params, **self._session}
        self._to.write(json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            block = self._from.read(1 << 16)
            assert block, "the browser ended"
            self._read += block
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, page: Path) -> None:
        """Show a file, and wait until it is loaded."""
        self.call("Page.navigate", url=page.as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def run(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true; the test's time limit is the deadline."""
        self.run(f"new Promise((ok) => {{ const look = () => ({condition}) ? ok() : "
                 "requestAnimationFrame(look); look(); })")  # fmt: skip

    def mouse(self, kind: str, x: float, y: float, clicks: int = 1) -> None:
        """Move, press or release the left button of the mouse."""
        at = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": clicks}
        self.call("Input.dispatchMouseEvent", **at)

    def drag(self, x: float, to_x: float, y: float) -> None:
        """Drag to the right or to the left."""
        self.mouse("mousePressed", x, y)
        self.mouse("mouseMoved", to_x, y)
        self.mouse("mouseReleased", to_x, y)

    def double_click(self, x: float, y: float) -> None:
        """Click twice."""
        for clicks in (1, 2):
            self.mouse("mousePressed", x, y, clicks)
            self.mouse("mouseReleased", x, y, clicks)

    def screenshot(self, file: Path, **options: Any) -> None:
        """Write what the tab shows as PNG."""
        shot = self.call("Page.captureScreenshot", **options)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with its profile in ``folder``."""
    assert CHROMIUM
    read, to = os.pipe()
    from_, write = os.pipe()
    # The protocol's pipes are file descriptors 3 and 4.
    renumber = f"import os, sys; os.dup2({read}, 3); os.dup2({write}, 4)"
    begin = f"{renumber}; os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", begin, CHROMIUM]
    process = subprocess.Popen(
        [*command, *_OPTIONS, f"--user-data-dir={folder}"],
        pass_fds=(read, write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read)
    os.close(write)
    with os.fdopen(to, "wb", 0) as sent, os.fdopen(from_, "rb", 0) as received:
        try:
            yield Browser(sent, received)
        finally:
            process.terminate()
            process.wait()
