"""`klamm up` in a separate process, as a user runs it, and other commands."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import msgspec
import pexpect
import pytest

from klamm.cli.main import main
from klamm.server.data_dir import read_address
from tests.hurried_java import HURRIED
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
KLAMM = (sys.executable, "-m", "klamm")
RunKlamm = Callable[..., tuple[int, str, str]]
"""What the fixture ``run_klamm`` gives."""


def environ_for(data_dir: Path, **more: str) -> dict[str, str]:
    """This environment, without any klamm but the one in ``data_dir``, and ``more`` variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")}
    return {**kept, "KLAMM_DATA_DIR": str(data_dir), **more}


def without_slowness(stderr: str) -> str:
    """Standard error, also as JSON, without the lines that only a slow machine brings: its waits.

    The waits of `klamm broker start` stay: it says at once what is certain to take long.
    """
    waits = r"waiting for (?!ZooKeeper to expire |broker \d+ to stop)|running step: "
    return re.sub(rf'(?m)^(\{{"note":")?({waits}).*\n', "", stderr)


def klamm(data_dir: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; ``environ``: more environment variables."""
    done = subprocess.run(
        [*KLAMM, *args],
        cwd=ROOT,
        env=environ_for(data_dir, **environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    done.stderr = without_slowness(done.stderr)
    return done


def start_klamm(
    data_dir: Path, *args: str, stdin: int | None = None, stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start a command, with pipes for its output."""
    return subprocess.Popen(
        [*KLAMM, *args],
        cwd=ROOT,
        env=environ_for(data_dir),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


@contextlib.contextmanager
def on_terminal(
    data_dir: Path, *args: str, columns: int = 100, **environ: str
) -> Iterator[pexpect.spawn[str]]:
    """Run a command on a terminal of this width; ended if it is left."""
    process = pexpect.spawn(
        KLAMM[0],
        [*KLAMM[1:], *args],
        cwd=str(ROOT),
        env={
            name: value
            for name, value in {**environ_for(data_dir, **environ), "TERM": "xterm"}.items()
            if name not in ("COLUMNS", "LINES")
        },
        dimensions=(40, columns),
        encoding="utf-8",
        timeout=60,
    )
    process.delaybeforesend = None
    try:
        yield process
    finally:
        try:
            process.close(force=True)
        except pexpect.ExceptionPexpect:
            # It was killed, but has not ended within a tenth of a second.
            process.wait()


class Up:
    """A running `klamm up`."""

    def __init__(self, process: subprocess.Popen[str], data_dir: Path, output: Path) -> None:
        self.process = process
        self.data_dir = data_dir
        self._output = output

    @property
    def url(self) -> str:
        """Where its API is."""
        address = read_address(self.data_dir)
        assert address is not None
        return address.url

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command on it, in this process: starting one takes longer than most commands."""
        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2)]
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(streams[0]),
            contextlib.redirect_stderr(streams[1]),
            Path(os.devnull).open(encoding="utf-8") as no_input,
        ):
            patch.setattr(os, "environ", environ_for(self.data_dir))
            patch.setattr(sys, "stdin", no_input)
            code = main(args)
        for stream in streams:
            stream.flush()
        out, err = (cast(io.BytesIO, stream.buffer).getvalue().decode() for stream in streams)
        return subprocess.CompletedProcess(args, code, out, without_slowness(err))

    def ok(self, *args: str) -> str:
        """Run a command that must succeed; its output."""
        done = self.run(*args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *args: str) -> dict[str, object]:
        """Run a command that must succeed with --json; its values."""
        return msgspec.json.decode(self.ok(*args, "--json"), type=dict[str, object])

    def output(self) -> str:
        """All that it has printed."""
        return self._output.read_text(encoding="utf-8")

    def wait(self, timeout_s: float = 60) -> str:
        """Wait until it ends by itself; all that it printed."""
        self.process.wait(timeout_s)
        return self.output()

    def end(self, number: int = signal.SIGINT) -> str:
        """Send a signal and wait for the end; all that it printed."""
        self.process.send_signal(number)
        return self.wait(30)


@contextlib.contextmanager
def klamm_up(data_dir: Path, *args: str, **environ: str) -> Iterator[Up]:
    """`klamm up` on a free port, from the moment its address is known; killed if it is left.
    ``environ``: more environment variables."""
    with tempfile.NamedTemporaryFile() as output:
        process = subprocess.Popen(
            [*KLAMM, "up", "--port", "0", *args],
            cwd=ROOT,
            env=environ_for(data_dir, **HURRIED, **environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
        up = Up(process, data_dir, Path(output.name))
        try:
            _wait_until_up(up)
            yield up
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _wait_until_up(up: Up) -> None:
    def is_up_or_ended() -> bool:
        address = read_address(up.data_dir)
        is_up = address is not None and address.pid == up.process.pid
        return is_up or up.process.poll() is not None

    wait_until(is_up_or_ended, 60, "klamm up to be up")
    assert up.process.poll() is None, up.output()


def processes_naming(word: str) -> Sequence[str]:
    """Command lines of processes that contain ``word``."""
    listed = subprocess.run(
        ["ps", "-e", "-ww", "-o", "args"], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if word in line]
