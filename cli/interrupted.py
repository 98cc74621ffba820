"""Message and exit code of a klamm that Ctrl-C ends. Imports nothing, so main.py loads fast."""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = 130
NOTHING_STARTED: Final = "Interrupted: nothing was started"
