"""Exit codes and error output of all commands: an error is one line of text and a hint.

This file imports error classes, but no command.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Final

import msgspec
import typer
from typer._click import Context

from klamm.cli.interrupted import INTERRUPTED, print_interrupted
from klamm.cluster.errors import EnvironmentProblem, Interrupted, KlammError, UsageError
from klamm.tools.command_result import describe_error

FAILED: Final = 1
UNSAFE: Final = 10
INCONCLUSIVE: Final = 12
NOT_DETERMINISTIC: Final = 13
FINDINGS: Final = 14
SIGNALLED: Final = 128
"""The exit code after a signal is this number plus the signal's number, as in a shell."""
READER_GONE = 141
"""Exit code if the process that reads the output, e.g. head, has ended: 128 + SIGPIPE."""
MAY_BE_DONE: Final = "the request may have been carried out: check before you repeat it"
MAY_BE_REPEATED: Final = "nothing was changed: the same command may succeed later"
REPLAY_PACKAGES: Final = ("duckdb", "numpy", "py4j", "pyarrow", "pyspark", "sqlglot", "xxhash")
"""Packages that are installed only with `klamm[replay]`."""
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
"""Patterns of typer's messages about numbers, and the messages that replace them."""


def run(command: Callable[[], int], *, as_json: bool = False) -> int:
    """Run a command and return its exit code; print any error to standard error.

    Handles KlammError, usage errors, interruption and OSError. Any other exception is a bug and
    propagates. If ``as_json`` is set, errors are printed as JSON.
    """
    try:
        code = command()
        sys.stdout.flush()
        return code
    except Interrupted as error:
        print_interrupted(error.message, hint=error.hint, as_json=as_json)
        return INTERRUPTED
    except KlammError as error:
        return print_error(error, as_json)
    except typer.TyperException as error:
        return _usage(error, as_json)
    except (KeyboardInterrupt, typer.Abort):
        print_interrupted(as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:
        # click turns the BrokenPipeError of a closed pipe into a SystemExit.
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_gone()
        if not isinstance(end.code, int) or end.code <= SIGNALLED:
            raise
        _signalled(end.code, as_json)
        return end.code
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        reason = f"{place}{error.strerror}" if error.strerror else str(error)
        return print_error(EnvironmentProblem(reason), as_json)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in REPLAY_PACKAGES:
            raise
        missing = f"this command needs {package}, which is not installed"
        return print_error(EnvironmentProblem(missing, hint="pip install 'klamm[replay]'"), as_json)


def print_error(error: KlammError, as_json: bool = False) -> int:
    """Print an error and its hint to standard error. Return the exit code."""
    if not error.hint:
        error.hint = _advice(error)
    if as_json:
        print_error_json(describe_error(error), error.exit_code)
    else:
        typer.echo(f"error: {' '.join(error.message.split())}", err=True)
        if error.hint:
            typer.echo(f"hint: {error.hint}", err=True)
    return error.exit_code


def _advice(error: KlammError) -> str | None:
    """Return a hint that follows from what is known of the outcome."""
    if not error.definite:
        return MAY_BE_DONE
    return MAY_BE_REPEATED if error.retriable else None


def print_error_json(error: object, exit_code: int) -> None:
    """Print an error's description and the exit code to standard error, as one JSON line."""
    answer = msgspec.json.encode({"error": error, "exit_code": exit_code})
    typer.echo(answer.decode(), err=True)


def _signalled(code: int, as_json: bool) -> None:
    """Report the signal that ended the command.

    cli/running.py has already closed everything.
    """
    name = signal.Signals(code - SIGNALLED).name
    message = "Interrupted" if code == INTERRUPTED else f"Ended by {name}"
    print_interrupted(message, exit_code=code, as_json=as_json)


def _reader_gone() -> int:
    # Otherwise Python reports the closed pipe again when it flushes stdout at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def _usage(error: typer.TyperException, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.message, err=True)
        return error.exit_code
    path = context.command_path if context is not None else "klamm"
    for theirs, ours in _VALUE_PROBLEMS:
        error.message = theirs.sub(ours, error.message)
    hint = _json_hint(error) or _broker_hint(error, path) or _help_hint(error, path)
    return print_error(UsageError(error.format_message(), hint=hint), as_json)


def _help_hint(error: typer.TyperException, path: str) -> str:
    is_command = error.message.startswith("No such command")
    return f"{path} --help lists its {'commands' if is_command else 'options'}"


def _json_hint(error: typer.TyperException) -> str | None:
    """Return a hint if --json was given before the name of the command.

    The similar options that typer found are removed from the error.
    """
    context: Context | None = getattr(error, "ctx", None)
    is_group = context is not None and hasattr(context.command, "commands")
    if not is_group or getattr(error, "option_name", None) != "--json":
        return None
    vars(error)["possibilities"] = None
    return "write --json after the command, e.g. klamm status --json"


def _broker_hint(error: typer.TyperException, path: str) -> str | None:
    """Return a hint if a broker id was given as an argument to a command that takes --broker."""
    extra = re.search(r"unexpected extra argument\(s\) \((\d+)\)", error.message)
    context: Context | None = getattr(error, "ctx", None)
    if (
        extra is None
        or context is None
        or all("--broker" not in param.opts for param in context.command.params)
    ):
        return None
    return f"write the broker as an option: {path} --broker {extra[1]}"
