"""What a Spark cluster needs that this process has by itself: klamm's packages, in one archive.

Also what is checked before a job is sent to one. Starts nothing.
"""

from __future__ import annotations

import re
import socket
import zipfile
from pathlib import Path
from typing import Final

from cluster.errors import EnvironmentProblem, UsageError

PACKAGES: Final = ("cluster", "replay", "report", "statemachines", "zk")
"""What Python workers import of klamm."""
_ROOT: Final = Path(__file__).resolve().parents[1]
_LOCAL: Final = re.compile(r"local(\[(\d+|\*)\])?$")
_STANDALONE: Final = re.compile(r"spark://(?P<hosts>[^:,/\s]+:\d+(,[^:,/\s]+:\d+)*)$")
_OTHER: Final = re.compile(r"yarn$|k8s://\S+$")
_CONNECT_TIMEOUT_S: Final = 5.0


def is_local(master: str) -> bool:
    """True for a master that is this process."""
    return _LOCAL.match(master) is not None


def is_loopback(master: str) -> bool:
    """True for a master on this machine's loopback."""
    return re.match(r"spark://(127\.|localhost[:,])", master) is not None


def check_master(master: str) -> None:
    """Raises UsageError for what is no master, EnvironmentProblem for one that does not answer."""
    if is_local(master) or _OTHER.match(master):
        return
    standalone = _STANDALONE.match(master)
    if standalone is None:
        raise UsageError(
            f"{master} is no Spark master", hint="for example local[4] or spark://host:7077"
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
        f"no Spark master answers at {master} ({'; '.join(problems)})",
        hint="its log and its web page name the address",
    )


def write_packages(archive: Path) -> Path:
    """A zip of the packages that Python workers import, for Spark's ``--py-files``."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for package in PACKAGES:
            for source in sorted((_ROOT / package).rglob("*.py")):
                file.write(source, source.relative_to(_ROOT).as_posix())
    return archive
