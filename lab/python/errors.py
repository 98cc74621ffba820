"""The error of clusters in Python: texts of the drill language, in words for Python code."""

from __future__ import annotations

import re
from typing import Final

from klamm.cluster.errors import KlammError
from klamm.lab.checks.invariants import InvariantViolated
from klamm.lab.language.reading import HINT, ROLES_HINT

__tracebackhide__ = True
"""Tells pytest to omit the functions of this file from tracebacks."""
_POSITION: Final = re.compile(r":1:\d+: ")
"""The position in a drill file, which means nothing in a call."""
_HINTS: Final[dict[str, str | None]] = {
    HINT: None,
    "run the drill without --real": "use klamm.SimulatedCluster",
    "use it in a drill that runs without --real": "use klamm.SimulatedCluster",
    "run the drill with --real": "use klamm.LocalCluster(zookeeper_servers=3)",
    "use another chroot, e.g. --zookeeper HOST:PORT/klamm": "use another chroot, e.g. "
    "klamm.LocalCluster(zookeeper='HOST:PORT/klamm')",
}
"""Hints of drills, and the same hints for Python code."""
_BROKER_HINT: Final = (
    'give an id, or e.g. "controller", "dead", "leader of t-0", "any ISR follower of t-0", "rack a"'
)
_PYTHON_WORDS: Final = {
    "must be at least one 'name: value' line": "must be a dict with at least one entry",
    "'null'": "None",
}
"""Words about YAML, and the same for Python."""
_ZOOKEEPER_OPTION: Final = re.compile(r"--zookeeper (\S+)")


class ClusterError(KlammError):
    """A call on a cluster was refused or failed, or a check found a violation.

    ``replay`` is the line that repeats the run. ``definite`` is False if the operation may have had
    an effect, e.g. if a record was not acknowledged but may be stored. ``row`` is the number of the
    last journal row when an invariant was violated, from 1.
    """

    def __init__(
        self,
        message: str,
        *,
        replay: str,
        hint: str | None = None,
        definite: bool = True,
        row: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, definite=definite)
        self.replay = replay
        self.row = row

    def __str__(self) -> str:
        hint = [f"hint: {self.hint}"] if self.hint else []
        return "\n".join([self.message, *hint, f"replay: {self.replay}"])


class ErrorsAsClusterErrors:
    """Context manager that converts each KlammError to a ClusterError."""

    def __init__(self, call: str, replay: str) -> None:
        self._call = call
        self._replay = replay

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, KlammError) or isinstance(error, ClusterError):
            return
        name = f"{self._call}: "  # of the file in drills, and of the action
        message = _POSITION.sub(": ", error.message, count=1).removeprefix(name).removeprefix(name)
        for words, python in _PYTHON_WORDS.items():
            message = message.replace(words, python)
        if isinstance(error, InvariantViolated):
            message = f"{error.invariant}: {error.statement} Seen: {message}"
        begins_with_call = message.startswith(f"{self._call} ")
        raise ClusterError(
            message if begins_with_call else f"{self._call}: {message}",
            replay=self._replay,
            hint=python_hint(error.hint),
            definite=error.definite,
            row=error.row if isinstance(error, InvariantViolated) else None,
        ) from None


def python_hint(hint: str | None, call: str = "klamm.LocalCluster") -> str | None:
    """Return the hint for Python code instead of the hint for drill files and commands.

    ``call``: what takes the address of a ZooKeeper server.
    """
    if hint is None or hint in _HINTS:
        return None if hint is None else _HINTS[hint]
    hint = hint.replace(ROLES_HINT, _BROKER_HINT)
    return _ZOOKEEPER_OPTION.sub(rf'{call}(zookeeper="\1")', hint)
