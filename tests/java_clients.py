"""Kafka's Java clients 2.8.2 and 3.9.1 as programs (tests/java), driven over their standard input.

3.9 is the last version of the client before Kafka 4.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from bench.kafka.locate import SKIP_REASON, TOOLS_LOG_CONFIG, compile_java, find_javac
from klamm.cluster.errors import EnvironmentProblem
from klamm.tools.command_result import CommandResult
from klamm.world.kafka.jars import kafka_libs, require_kafka_libs
from klamm.zk.java import find_java
from tests.group_members import PATIENCE_S

_SOURCES: Final = Path(__file__).with_name("java")
_NEWER_JAR: Final = Path(__file__).parents[1] / ".kafka" / "clients" / "kafka-clients-3.9.1.jar"
# A client lives for seconds, most of which the better compiler and collector would take.
_FLAGS: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@functools.cache
def java_classes() -> Path:
    """Compile the programs against 2.8.2, once in a test process, and return their folder."""
    folder = tempfile.mkdtemp(prefix="klamm-java-")
    atexit.register(shutil.rmtree, folder)
    compile_java(sorted(_SOURCES.glob("*.java")), Path(folder))
    return Path(folder)


class JavaProgram:
    """A Java program that reads and prints lines. It ends at the end of its input."""

    def __init__(self, class_path: str, class_name: str, *args: str) -> None:
        flags = (*_FLAGS, f"-Dlog4j.configuration={TOOLS_LOG_CONFIG.as_uri()}")
        self._process = subprocess.Popen(
            [str(find_java().executable), *flags, "-cp", class_path, class_name, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=class_name)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def write(self, line: str) -> None:
        """Write a line to the program."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def read(self) -> str:
        """Return the next line. Raises queue.Empty after ``PATIENCE_S``."""
        line = self._lines.get(timeout=PATIENCE_S)
        assert line is not None, "the program has ended"
        return line

    def end(self) -> list[str]:
        """Close the program's input, wait until it ends, and return the lines not read yet."""
        try:
            # A program that has ended breaks the pipe.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            status = self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()
        assert status == 0, status
        return list(iter(self._lines.get, None))


class JavaClient(NamedTuple):
    """A version of Kafka's Java client."""

    version: str

    @property
    def missing(self) -> str | None:
        """Why the client cannot be run here."""
        if kafka_libs() is None:
            return SKIP_REASON
        if self.version != "2.8.2" and not _NEWER_JAR.is_file():
            return f"no {_NEWER_JAR.name}: make peer-kafka"
        try:
            find_javac()
        except EnvironmentProblem as error:
            return error.message
        return None

    def run(self, class_name: str, *args: str) -> JavaProgram:
        """Start a program with this client. Raises EnvironmentProblem, JavaNotFound."""
        libs = require_kafka_libs()
        jars = [libs / "*"]
        if self.version != "2.8.2":
            others = (jar for jar in libs.glob("*.jar") if not jar.name.startswith("kafka"))
            jars = [_NEWER_JAR, *sorted(others)]
        class_path = os.pathsep.join(map(str, (java_classes(), *jars)))
        return JavaProgram(class_path, class_name, *args)

    def member(self, servers: list[str]) -> JavaMember:
        """Return a member of the group g."""
        return JavaMember(self.run("JavaClient", ",".join(servers), "consume"))

    def produce(self, servers: list[str], halfway: Callable[[], None], count: int) -> list[bytes]:
        """Produce ``count`` values to 4 partitions, and return those that were acknowledged."""
        program = self.run("JavaClient", ",".join(servers), "produce")
        try:
            for number in range(count):
                program.write(f"{number % 4} {number}")
                if number == count // 2:
                    halfway()
        finally:
            acknowledged = program.end()
        return [value.encode() for value in acknowledged]

    @contextlib.contextmanager
    def admin(self, servers: list[str]) -> Iterator[Callable[..., str]]:
        """Run an admin client, and give a function that makes a call and returns its answer."""
        program = self.run("JavaAdmin", ",".join(servers))

        def call(*words: object) -> str:
            program.write(" ".join(map(str, words)))
            return program.read()

        try:
            yield call
        finally:
            program.end()


JAVA_CLIENTS: Final = (JavaClient("2.8.2"), JavaClient("3.9.1"))


@contextlib.contextmanager
def kafka_tools() -> Iterator[Callable[[str, Sequence[str]], CommandResult]]:
    """Give a function that runs a tool of Kafka 2.8.2, named by its Java class, in one process.

    Raises EnvironmentProblem, JavaNotFound.
    """
    program = JAVA_CLIENTS[0].run("KafkaTools")

    def run(java_class: str, args: Sequence[str]) -> CommandResult:
        words = (base64.b64encode(arg.encode()).decode() for arg in args)
        program.write(" ".join((java_class, *words)))
        exit_code, *streams = program.read().split(" ")
        stdout, stderr = (base64.b64decode(text).decode() for text in streams)
        return CommandResult(stdout, stderr, int(exit_code))

    try:
        yield run
    finally:
        program.end()


class JavaMember:
    """A member of a group (tests.group_members.Member): a Java program."""

    def __init__(self, program: JavaProgram) -> None:
        self._program = program
        self._assigned: set[int] = set()

    def poll(self) -> list[bytes]:
        values: list[bytes] = []
        self._program.write("poll")
        while (line := self._program.read()) != "polled":
            word, *rest = line.split(" ")
            if word == "assigned":
                self._assigned = set(map(int, rest))
            else:
                values.append(rest[0].encode())
        return values

    def assigned(self) -> set[int]:
        return self._assigned

    def close(self) -> None:
        self._program.end()


def java_marks(client: JavaClient) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that needs a client; it is skipped if it cannot be run here."""
    return [
        pytest.mark.kafka,
        pytest.mark.skipif(client.missing is not None, reason=str(client.missing)),
    ]


def java_params(of: Callable[[JavaClient], tuple[object, ...]]) -> list[object]:
    """Return the parameters of a test for each Java client; it is skipped if it cannot be run."""
    return [
        pytest.param(
            *of(client),
            id=f"Java {client.version}",
            marks=[
                *java_marks(client),
                pytest.mark.client("Java client", version=client.version),
            ],
        )
        for client in JAVA_CLIENTS
    ]
