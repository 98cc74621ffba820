"""What klamm says and returns when Ctrl-C ends it. Imports nothing: main.py needs it at once."""

from __future__ import annotations

from typing import Final

INTERRUPTED: Final = 130
NOTHING_STARTED: Final = "Interrupted: nothing was started"
