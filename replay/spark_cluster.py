"""Connects to a Spark cluster: checks the master's URL and waits for the first executor.

Also creates the zip file from which the cluster's workers import klamm.
"""

from __future__ import annotations

import re
import socket
import sys
import time
import zipfile
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from klamm.cluster.errors import EnvironmentProblem, UsageError

_ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = tuple(sorted(file.parent.name for file in _ROOT.glob("*/__init__.py")))
"""The packages of klamm. Spark's Python workers import most of them, for replay and for hunts."""
_LOCAL: Final = re.compile(r"local(\[(\d+|\*)\])?$")
_STANDALONE: Final = re.compile(r"spark://(?P<hosts>[^:,/\s]+:\d+(,[^:,/\s]+:\d+)*)$")
_OTHER: Final = re.compile(r"yarn$|k8s://\S+$")
_CONNECT_TIMEOUT_S: Final = 5.0
_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.2


def is_local(master: str) -> bool:
    """Return whether a master URL is ``local[N]``: one local process instead of a cluster."""
    return _LOCAL.match(master) is not None


def is_local_master(master: str) -> bool:
    """Return whether a master URL is on this machine's loopback interface."""
    return re.match(r"spark://(127\.|localhost[:,])", master) is not None


def check_master(master: str) -> None:
    """Check a master URL. Raises UsageError if invalid, EnvironmentProblem if unreachable."""
    if is_local(master) or _OTHER.match(master):
        return
    standalone = _STANDALONE.match(master)
    if standalone is None:
        raise UsageError(
            f"{master} is not a Spark master URL",
            hint="for example local[4] or spark://host:7077",
        )
    problems = []
    for at in standalone["hosts"].split(","):
        host, _, port = at.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S).close()
            return
        except (OSError, OverflowError) as error:
            problems.append(f"{at}: {error}")
    raise EnvironmentProblem(
        f"no Spark master responds at {master} ({'; '.join(problems)})",
        hint="the master's log and web page show its URL",
    )


def wait_for_executor(context: SparkContext, memory_mb: int) -> None:
    """Wait, without a time limit, until the cluster has assigned an executor.

    If this takes more than 10 seconds, prints a line to standard error. Raises EnvironmentProblem
    if the cluster cancels the job.
    """
    said_at_s = time.monotonic() + _PATIENCE_S
    is_said = False
    while not _has_executor(context):
        if not is_said and time.monotonic() > said_at_s:
            is_said = True
            sys.stderr.write(
                f"waiting for {context.master}: no worker has had a free core and {memory_mb} MiB "
                f"of memory for {_PATIENCE_S:.0f} s (lower --memory-mb, or give up with Ctrl-C)\n"
            )
            sys.stderr.flush()
        time.sleep(_POLL_S)


def _has_executor(context: SparkContext) -> bool:
    java = context._jsc.sc()
    try:
        # The list includes the driver.
        return bool(java.getExecutorMemoryStatus().size() > 1)
    except Py4JJavaError as error:
        raise EnvironmentProblem(
            f"{context.master} cancelled the job before it had an executor",
            hint="see the logs of its workers",
        ) from error


def write_packages(archive: Path) -> Path:
    """Create a zip file with klamm's packages for Spark's option ``--py-files``."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        found = [_ROOT / "__init__.py", _ROOT / "interrupts.py"]
        for package in PACKAGES:
            found += sorted((_ROOT / package).rglob("*.*"))
        for source in found:
            if source.suffix != ".pyc":
                file.write(source, f"klamm/{source.relative_to(_ROOT).as_posix()}")
    return archive
