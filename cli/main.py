"""Entry point of `klamm`. Ctrl-C while the imports run prints no traceback.

Imports almost nothing at module level. cli/app.py lists the commands, cli/errors.py turns errors
into messages and exit codes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise, takewhile

from klamm.cli.interrupted import INTERRUPTED, NOTHING_STARTED, print_interrupted
from klamm.interrupts import interrupts_deferred


def main(argv: Sequence[str] | None = None) -> int:
    """Run klamm and return the exit code.

    ``argv``: the command line, by default the arguments of the process.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # its file descriptor is closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the whole process
    args = list(sys.argv[1:] if argv is None else argv)
    as_json = _wants_json(args)
    try:
        # These imports take half a second: a Ctrl-C meanwhile must not print a traceback, or crash
        # the process within a library in C. Nothing can be done about a Ctrl-C before main() is
        # called, while Python itself starts.
        with interrupts_deferred():
            from klamm.cli import errors
            from klamm.cli.app import app
            from klamm.cli.terminal import harmless_output
    except KeyboardInterrupt:
        is_up = args[:1] == ["up"]
        print_interrupted(NOTHING_STARTED if is_up else "Interrupted", as_json=as_json)
        return INTERRUPTED
    with harmless_output(as_json=as_json):
        return errors.run(
            lambda: app(args, prog_name="klamm", standalone_mode=False) or 0, as_json=as_json
        )


def _wants_json(args: Sequence[str]) -> bool:
    """Return True if errors are to be printed as JSON: with --json or --format json.

    The arguments are searched without parsing them, because the error may be in the command line.
    """
    words = list(takewhile(lambda word: word != "--", args))
    return bool({"--json", "--format=json"}.intersection(words)) or ("--format", "json") in (
        pairwise(words)
    )


if __name__ == "__main__":
    sys.exit(main())
