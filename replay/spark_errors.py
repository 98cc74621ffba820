"""Turns Spark's errors (full disk, missing file, failed worker) into klamm's one-line errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from klamm.cluster.errors import EnvironmentProblem, KlammError
from klamm.replay.full_disk import full_disk_errors, is_full, no_space

SHARED_STORAGE: Final = "give a URL, or a directory that the driver and all workers share"
_PYTHON_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Problem)): (.+)$", re.M)
_OWN_ERROR: Final = re.compile(rf"^{re.escape(KlammError.__module__)}\.\w+: (.+)$", re.M)
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]*?([\w$]+): (.+)$", re.M)


@contextmanager
def one_line_errors(folder: Path) -> Iterator[None]:
    """Context manager that turns Spark's errors into EnvironmentProblem (full disk) or KlammError.

    ``folder``: output directory, which is named in errors about a full disk.
    """
    try:
        with full_disk_errors(folder):
            yield
    except (Py4JJavaError, PySparkException) as error:
        interrupt = interrupt_behind(error)
        if interrupt is not None:
            raise interrupt from None
        raise as_klamm_error(str(error), folder) from error


def interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """Return the KeyboardInterrupt (Ctrl-C or a termination signal) behind an error, if any."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause


def unpersist(frames: Iterable[DataFrame]) -> None:
    """Free cached data frames.

    Errors are ignored: they occur only if the JVM has already ended, which also frees the data
    frames, and they must not hide the error that ended the JVM.
    """
    for frame in frames:
        with suppress(Py4JError, PySparkException, ConnectionError):
            frame.unpersist()


def as_klamm_error(text: str, folder: Path) -> KlammError:
    """Summarize the error text of a failed Spark job (a Java stack trace) as a klamm error."""
    if is_full(text):
        return no_space(folder)
    own = _OWN_ERROR.findall(text)
    if own:
        return EnvironmentProblem(own[-1].strip())
    causes = _PYTHON_ERROR.findall(text) or _CAUSE.findall(text)
    if causes:
        kind, words = causes[-1]
        if kind == "FileNotFoundError":
            return EnvironmentProblem(f"Spark job failed: {words.strip()}", hint=SHARED_STORAGE)
        return KlammError(f"Spark job failed: {words.strip()} ({kind})")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return KlammError(f"Spark job failed: {lines[0] if lines else 'no error message'}")
