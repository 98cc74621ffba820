"""Message and exit code of a klamm command that is ended by a signal.

Imports little, so that main.py loads fast.
"""

from __future__ import annotations

import sys
from typing import Final

INTERRUPTED: Final = 130
NOTHING_STARTED: Final = "Interrupted: nothing was started"


def print_interrupted(
    message: str = "Interrupted",
    *,
    hint: str | None = None,
    exit_code: int = INTERRUPTED,
    as_json: bool,
) -> None:
    """Print to standard error, as text or JSON, that a signal has ended the command."""
    if as_json:
        import json

        error = {"error": "Interrupted", "code": None, "message": message, "hint": hint}
        facts = {"definite": False, "retriable": False}
        answer = {"error": {**error, **facts}, "exit_code": exit_code}
        text = json.dumps(answer, separators=(",", ":"))
    else:
        text = f"{message}\nhint: {hint}" if hint else message
    erase_typed()
    print(text, file=sys.stderr, flush=True)


def erase_typed() -> None:
    """Erase the ^C that a terminal shows for Ctrl-C."""
    if sys.stderr.isatty():
        stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
        stream.write("\r\x1b[K")
        stream.flush()
