"""How every command ends: an exit code, and for an error one line and a hint.

Depends on errors, not on commands.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from typing import Final

import typer

from klamm.cli.interrupted import INTERRUPTED
from klamm.cluster.errors import KlammError

FAILED = 1
READER_GONE = 141
"""128 + SIGPIPE, as a shell reports it if the reader of the output has ended, e.g. head."""
MAY_BE_DONE: Final = "the request may have been carried out: check before you repeat it"
REPLAY_PACKAGES: Final = ("numpy", "pandas", "py4j", "pyarrow", "pyspark", "xxhash")
"""Packages that only the extra `replay` installs."""
_VALUE_PROBLEMS: Final = (
    (re.compile(r"('.*') is not a valid int(?:eger)?(?: range)?\."), r"\1 is not a whole number"),
    (re.compile(r"('.*') is not a valid float(?: range)?\."), r"\1 is not a number"),
    (re.compile(r"(\S+) is not in the range x>=(\S+)\."), r"must be at least \2, not \1"),
    (re.compile(r"(\S+) is not in the range x<=(\S+)\."), r"must be at most \2, not \1"),
    (
        re.compile(r"(\S+) is not in the range (\S+)<=x<=(\S+)\."),
        r"must be between \2 and \3, not \1",
    ),
)
"""Patterns of typer's messages about numbers, and klamm's replacements."""


def run(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; print an error that it raises to standard error.

    Handles KlammError, wrong usage, interruption and OSError. Any other exception is a bug and
    propagates.
    """
    try:
        code = command()
        sys.stdout.flush()
        return code
    except KlammError as error:
        print_error(error.message, error.hint or (None if error.definite else MAY_BE_DONE))
        return error.exit_code
    except typer.TyperException as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:
        # click turns the BrokenPipeError of a closed pipe into a SystemExit.
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except OSError as error:
        print_error(str(error), None)
        return FAILED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in REPLAY_PACKAGES:
            raise
        print_error(
            f"this command needs {package}, which is not installed", "pip install 'klamm[replay]'"
        )
        return FAILED


def _reader_gone() -> int:
    # Otherwise Python reports the closed pipe again when it flushes stdout at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def print_error(message: str, hint: str | None) -> None:
    """Print an error as one line on standard error, and the hint, if any, as a second one."""
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    if hint:
        typer.echo(f"hint: {hint}", err=True)


def _usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.message, err=True)
        return error.exit_code
    path = context.command_path if context is not None else "klamm"
    for theirs, ours in _VALUE_PROBLEMS:
        error.message = theirs.sub(ours, error.message)
    print_error(error.format_message(), f"{path} --help lists its options")
    return error.exit_code
