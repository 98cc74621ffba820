"""Options of the commands for a running cluster, and the decorator that makes such a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate

import typer

from klamm.cli.client import SERVER_VARIABLE, ServerClient, find_server
from klamm.cli.options import AsJson, option, print_result, take_options

Server = Annotated[
    str | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help=f"Address of klamm's API. [default: {SERVER_VARIABLE}, or from --data-dir]",
    ),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option(help="Data directory of klamm up."),
]
_SERVER_OPTIONS = (
    option("server", Server, None),
    option("data_dir", DataDirectory, None),
    option("json", AsJson, False),
)
Answered = tuple[Any, str]
"""Two forms of a server's response: the plain values, and the text to print."""


def asks_server(ask: Callable[Concatenate[ServerClient, ...], Answered]) -> Callable[..., None]:
    """Decorator that turns ``ask``, which sends a request to a running cluster, into a command.

    The command also takes --server, --data-dir and --json. It prints the text that ``ask`` returns;
    with --json it prints the response.
    """

    @wraps(ask)
    def command(server: str | None, data_dir: Path | None, json: bool, **given: Any) -> None:
        answer, text = ask(find_server(server, data_dir), **given)
        print_result(json, answer, text.split("\n"))

    take_options(command, ask, _SERVER_OPTIONS)
    return command
