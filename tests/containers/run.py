"""``make test-containers``: starts an engine, gets the images, runs the tests, cleans up.

Exit code 0 if every container test passed, or if no engine is available (with a message); 1 if a
test failed, or was skipped although an engine runs. The last line is the number of passed tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from tests.containers.compose import ROOT
from tests.containers.engine import Engine, Failed, NoEngine, Shell, cache_folder, docker_engine
from tests.containers.images import make_images

INTERRUPTED = 130
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_END_TIMEOUT_S = 60.0


class Outcome(NamedTuple):
    """Result of the tests."""

    code: int
    passed: int = 0
    skipped: int = 0


def main(arguments: list[str]) -> int:
    """Run the container tests; ``arguments`` go to pytest."""
    for number in _ENDING:
        signal.signal(number, _end)
    cache = cache_folder()
    shell = Shell(cache / "containers.log")
    outcome = Outcome(1)
    try:
        with docker_engine(cache, shell) as engine:
            images = make_images(engine, cache, shell)
            shell.say("running the tests")
            os.environ.update(images.environ())
            outcome = _run_tests(engine, cache, arguments)
            for number in _ENDING:
                signal.signal(number, signal.SIG_IGN)  # nothing interrupts the cleaning up
    except NoEngine as reason:
        print(f"container tests not run: {reason}")
        outcome = Outcome(0)
    except Failed as failure:
        print(f"container tests failed: {failure} (the log is {shell.log})")
    except KeyboardInterrupt:
        print("container tests interrupted")
        outcome = Outcome(INTERRUPTED)
    if outcome.skipped:
        print(f"container tests skipped although an engine runs: {outcome.skipped}")
    print(f"container tests passed: {outcome.passed}", flush=True)
    return outcome.code or (1 if outcome.skipped else 0)


def _end(number: int, _: FrameType | None) -> None:
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run_tests(engine: Engine, cache: Path, arguments: list[str]) -> Outcome:
    report = cache / "report.xml"
    report.unlink(missing_ok=True)
    command = (sys.executable, "-m", "pytest", "tests/containers", f"--junitxml={report}")
    # A separate process group: Ctrl-C is forwarded from here, once.
    with subprocess.Popen(
        engine.command(*command, *arguments), cwd=ROOT, start_new_session=True
    ) as tests:
        try:
            code = tests.wait()
        except KeyboardInterrupt:
            _interrupt(tests)
            raise
    if not report.exists():
        return Outcome(code or 1)
    suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314 - ours
    assert suite is not None
    counts = {
        name: int(suite.get(name, "0")) for name in ("tests", "skipped", "failures", "errors")
    }
    passed = counts["tests"] - counts["skipped"] - counts["failures"] - counts["errors"]
    return Outcome(code, passed, counts["skipped"])


def _interrupt(tests: subprocess.Popen[bytes]) -> None:
    """Let pytest end its fixtures; kill it if that takes too long."""
    os.killpg(tests.pid, signal.SIGINT)
    try:
        tests.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(tests.pid, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
