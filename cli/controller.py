"""`klamm controller`: moves the controller of a running cluster. Sends requests and prints only."""

from __future__ import annotations

from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.options import Answered, asks_server
from klamm.runtime.actions import MoveController

app = command_group(
    help="Move the controller of a running cluster.",
)


@app.command()
@asks_server
def move(client: ServerClient) -> Answered:
    """Delete /controller to force a controller election; the same broker may win again."""
    answer = client.act(MoveController())
    before, after = answer["from"], answer["to"]
    return answer, (
        f"controller: broker {before['id']} (epoch {before['epoch']}) -> "
        f"broker {after['id']} (epoch {after['epoch']})"
    )
