"""`klamm controller`: acts on the controller of a running cluster. Asks and prints only."""

from __future__ import annotations

from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.options import Answered, asks_server
from klamm.runtime.actions import MoveController

app = command_group(
    help="Act on the controller of a running cluster.",
)


@app.command()
@asks_server
def move(client: ServerClient) -> Answered:
    """Delete /controller, so that the candidates elect another; the same one may win again."""
    answer = client.act(MoveController())
    before, after = answer["from"], answer["to"]
    return answer, (
        f"controller: broker {before['id']} (epoch {before['epoch']}) -> "
        f"broker {after['id']} (epoch {after['epoch']})"
    )
