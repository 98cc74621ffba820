"""`klamm controller`: acts on the controller of a running cluster. Asks and prints only."""

from __future__ import annotations

import typer

from cli.client import find_server
from cli.options import AsJson, DataDirectory, Server, print_json

app = typer.Typer(
    help="Act on the controller of a running cluster.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def controller() -> None:
    """Act on the controller of a running cluster."""


@app.command()
def move(
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Delete /controller, so that the candidates elect another; the same one may win again."""
    answer = find_server(server, data_dir).post("/controller/move")
    if json:
        print_json(answer)
        return
    before, after = answer["from"], answer["to"]
    typer.echo(
        f"controller: broker {before['id']} (epoch {before['epoch']}) -> "
        f"broker {after['id']} (epoch {after['epoch']})"
    )
