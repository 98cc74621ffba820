"""Entry point of `klamm`. A Ctrl-C during the imports ends it as quietly as a later one.

Imports almost nothing at module level. cli/app.py has the commands, cli/errors.py turns errors
into messages and exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from klamm.cli.interrupted import INTERRUPTED, NOTHING_STARTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run klamm with ``argv`` (None: ``sys.argv[1:]``) and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        # These imports take half a second: a Ctrl-C meanwhile must not print a traceback.
        from klamm.cli import errors
        from klamm.cli.app import app
        from klamm.cli.terminal import harmless_output
    except KeyboardInterrupt:
        if args[:1] == ["up"]:
            print(NOTHING_STARTED, file=sys.stderr)
        return INTERRUPTED
    with harmless_output():
        return errors.run(lambda: app(args, prog_name="klamm", standalone_mode=False) or 0)


if __name__ == "__main__":
    sys.exit(main())
