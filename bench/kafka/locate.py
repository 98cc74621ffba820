"""Runs the command-line tools of Kafka 2.8.2, and compiles Java sources against its jars.

It must not use a Kafka of another version. Mirrors what bin/kafka-run-class.sh does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from klamm.cluster.errors import EnvironmentProblem
from klamm.world.kafka.jars import KAFKA_JAR, LIBS_VARIABLE, require_kafka_libs
from klamm.zk.java import find_java

SKIP_REASON = f"no {KAFKA_JAR}: make peer-kafka, or set {LIBS_VARIABLE}"
TOPIC_COMMAND = "kafka.admin.TopicCommand"

_HERE = Path(__file__).resolve().parent
TOOLS_LOG_CONFIG = _HERE / "tools-log4j.properties"
# A tool lives for a second, most of which the better compiler and collector would take.
_TOOL_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")


def find_javac() -> Path:
    """The compiler beside the Java in use, else the one in PATH. Raises EnvironmentProblem."""
    beside = find_java().home / "bin" / "javac"
    if beside.is_file():
        return beside
    on_path = shutil.which("javac")
    if on_path is None:
        raise EnvironmentProblem(
            f"no javac beside {find_java().executable} or in PATH, and the fake brokers are Java",
            hint="install a JDK 17 or newer",
        )
    return Path(on_path)


def compile_java(sources: Sequence[Path], classes: Path) -> None:
    """Compile against Kafka's jars into the folder ``classes``. Raises EnvironmentProblem."""
    command = [str(find_javac()), "--release", "17", "-nowarn", "-cp", f"{require_kafka_libs()}/*"]
    done = subprocess.run(
        [*command, "-d", str(classes), *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise EnvironmentProblem(f"javac: {done.stderr.strip()}")


def run_tool(
    class_name: str,
    args: Sequence[str],
    *,
    classes: Path | None = None,
    timeout_s: float = 120.0,
    given: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command-line tools to its end; its exit code is for the caller to judge.

    ``classes``: a folder with the class, if it is not Kafka's own. ``given``: standard input.
    Raises EnvironmentProblem without the jars, JavaNotFound, and subprocess.TimeoutExpired.
    """
    command = [
        str(find_java().executable),
        *_TOOL_FLAGS,
        f"-Dlog4j.configuration={TOOLS_LOG_CONFIG.as_uri()}",
        "-cp",
        f"{require_kafka_libs()}/*" + (f"{os.pathsep}{classes}" if classes else ""),
        class_name,
        *args,
    ]
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        check=False,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
    )


def run_topic_command(
    connect: str, args: Sequence[str], *, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run kafka-topics of 2.8.2 against a ZooKeeper: ``connect`` is ``host:port[/chroot]``."""
    return run_tool(TOPIC_COMMAND, ["--zookeeper", connect, *args], timeout_s=timeout_s)
