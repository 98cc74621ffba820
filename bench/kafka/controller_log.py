"""Reads from Kafka's controller.log how long the parts of an election took. Nothing else."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

_ELECTED = "elected as the controller"
# The step of onControllerFailover that ends where the line is written.
_LINES = {
    "context_loaded_s": "Currently active brokers in the cluster",
    "ready_s": "Ready to serve as the new controller",
}


def election_times_s(log: Path, offset: int, started_at_s: float) -> dict[str, float]:
    """Of the first election behind ``offset``, in seconds.

    ``elected_s`` counts from ``started_at_s``, the others from the election; what the log does not
    say is left out.
    """
    with log.open(errors="replace") as file:
        file.seek(offset)
        text = file.read()
    elected_at_s = _time_of(_ELECTED, text, 0.0)
    if elected_at_s is None:
        return {}
    times = {"elected_s": round(elected_at_s - started_at_s, 3)}
    for name, words in _LINES.items():
        at_s = _time_of(words, text, elected_at_s)
        if at_s is not None:
            times[name] = round(at_s - elected_at_s, 3)
    return times


def _time_of(words: str, text: str, after_s: float) -> float | None:
    for stamp in re.findall(rf"^\[([^\]]+)\] .*{words}", text, re.MULTILINE):
        at_s = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp()
        if at_s >= after_s:
            return at_s
    return None
