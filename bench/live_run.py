"""A run of bench/chaos.py or bench/kill9.py: its options, its outcome and how both are printed.

It imports no klamm module, like the rest of these two.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.live_cluster import remove

SAFETY, LIVENESS, INTERRUPTED = 10, 11, 130
_NAME_COLUMNS = 48


@dataclass
class Outcome:
    """What has been violated in a run, one line each."""

    safety: list[str] = field(default_factory=list)
    liveness: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        if self.safety:
            return SAFETY
        return LIVENESS if self.liveness else 0


def new_parser(name: str, description: str | None, examples: str) -> argparse.ArgumentParser:
    """Return a parser with the options of both."""
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{name}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=7, help="seed of the run (%(default)s)")
    parser.add_argument("--segments", action="store_true", help="brokers keep records in files")
    parser.add_argument("--cluster-seed", type=int, help="--seed of klamm up")
    parser.add_argument("--data-dir", type=Path, help="kept at the end; otherwise only if it fails")
    parser.add_argument(
        "--up-argument", action="append", default=[], metavar="WORD", help="for klamm up"
    )
    parser.add_argument("--json", action="store_true", help="print only the result, as JSON")
    return parser


def sayer(*, as_json: bool) -> Callable[[str], None]:
    """Return a function that prints a line with the time since now."""
    started_s = time.monotonic()
    file = sys.stderr if as_json else sys.stdout

    def say(line: str) -> None:
        print(f"{time.monotonic() - started_s:7.1f} s  {line}", file=file, flush=True)

    return say


def conclude(
    outcome: Outcome,
    figures: Mapping[str, Any],
    settings: Mapping[str, Any],
    options: argparse.Namespace,
    data_dir: Path,
    say: Callable[[str], None],
) -> int:
    """Print the result, keep or remove the data directory, and return the exit code.

    ``settings``: the options that the JSON result repeats. The directory is removed if it is
    temporary and nothing was violated.
    """
    if options.json:
        violated = {"safety": outcome.safety, "liveness": outcome.liveness}
        result = {**settings, **violated, "figures": figures, "exit_code": outcome.exit_code}
        print(json.dumps(result, indent=2))
    else:
        say("result")
        for name, value in figures.items():
            shown = f"{value:,}" if isinstance(value, int) else value
            print(f"  {name:<{_NAME_COLUMNS}} {shown}")
        for kind, lines in (("SAFETY", outcome.safety), ("LIVENESS", outcome.liveness)):
            print(f"  {kind + ' violations':<{_NAME_COLUMNS}} {len(lines)}")
            for line in lines:
                print(f"    {line}")
    if options.data_dir is None and not outcome.exit_code:
        remove(data_dir)
    else:
        say(f"data directory kept: {data_dir}")
    return outcome.exit_code
