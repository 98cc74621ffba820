"""`klamm network`: cuts brokers of a running cluster off from each other. Asks and prints only."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.client import find_server
from cli.options import AsJson, DataDirectory, Server, print_json

app = typer.Typer(
    help="Cut brokers of a running cluster off from each other.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    epilog="""
\b
Examples:
  klamm network isolate 2
  klamm network isolate 0 1
  klamm network heal
""",
)


@app.callback()
def network() -> None:
    """Cut brokers of a running cluster off from each other."""


@app.command()
def isolate(
    brokers: Annotated[list[int], typer.Argument(metavar="N...", help="Their ids.", min=0)],
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Cut brokers off: records travel among these and among the others, not between them.

    ZooKeeper, the controller and clients reach all of them. A follower that cannot fetch falls out
    of the ISR after replica.lag.time.max.ms, if anything is produced. Who was cut off before and is
    not named is so no more.
    """
    _set_isolated(brokers, server, data_dir, json)


@app.command()
def heal(
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Let records travel among all brokers again."""
    _set_isolated([], server, data_dir, json)


def _set_isolated(brokers: list[int], server: Server, data_dir: DataDirectory, json: bool) -> None:
    answer = find_server(server, data_dir).post("/network", {"isolated": brokers})
    isolated = answer["isolated"]
    ids = ", ".join(map(str, isolated))
    if json:
        print_json(answer)
    elif not isolated:
        typer.echo("no broker is cut off")
    elif len(isolated) == 1:
        typer.echo(f"broker {ids} is cut off from the others")
    else:
        typer.echo(f"brokers {ids} are cut off from the others")
