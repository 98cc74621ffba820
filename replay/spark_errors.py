"""What Spark raises, in one line: a full disk, a file that went away, a worker's own words.

Knows Spark's errors, no job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cluster.errors import EnvironmentProblem, KlammError

_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|ENOSPC")
_PYTHON_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Problem)): (.+)$", re.M)
_OWN_ERROR: Final = re.compile(r"^cluster\.errors\.\w+: (.+)$", re.M)
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]*?([\w$]+): (.+)$", re.M)


@contextmanager
def told_in_one_line(folder: Path) -> Iterator[None]:
    """Spark's errors as klamm's own. ``folder`` is where the block writes.

    Raises EnvironmentProblem for a full disk, KlammError for everything else.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise as_klamm_error(str(error), folder) from error
    except OSError as error:
        if _FULL.search(str(error)):
            raise as_klamm_error(str(error), folder) from error
        raise


def as_klamm_error(text: str, folder: Path) -> KlammError:
    """What a failed job's text comes down to."""
    if _FULL.search(text):
        return EnvironmentProblem(
            f"no space left while {folder} was made",
            hint="the directory of the table or that of temporary files (TMPDIR) is full",
        )
    own = _OWN_ERROR.findall(text)
    if own:
        return EnvironmentProblem(own[-1].strip())
    causes = _PYTHON_ERROR.findall(text) or _CAUSE.findall(text)
    if causes:
        kind, words = causes[-1]
        return KlammError(f"Spark's job failed: {words.strip()} ({kind})")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return KlammError(f"Spark's job failed: {lines[0] if lines else 'without a word'}")
