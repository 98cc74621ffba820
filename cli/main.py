"""`klamm`'s entry, which a Ctrl-C during the imports ends as quietly as one later.

Imports next to nothing itself: the commands are cli/app.py's, how they end is cli/errors.py's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from klamm.cli.interrupted import INTERRUPTED, NOTHING_STARTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run klamm with ``argv`` (None: the process's own) and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        # They take half a second, long enough to change one's mind.
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
