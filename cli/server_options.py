"""Options of the commands for a running cluster, and the forms of its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from klamm.cli.client import SERVER_VARIABLE

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
Answered = tuple[Any, str]
"""Two forms of a server's response: the plain values, and the text to print."""
