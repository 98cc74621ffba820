"""`klamm controller`: forces a controller election in a running cluster.

Sends a request to the server and prints the response.
"""

from __future__ import annotations

from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.options import Answered, asks_server
from klamm.cli.waiting import waiting
from klamm.runtime.actions import MoveController

app = command_group(
    help="Force a controller election in a running cluster.",
    epilog="""
\b
Examples:
  klamm controller move
""",
)


@app.command()
@asks_server
def move(client: ServerClient) -> Answered:
    """Delete /controller to force a controller election; the same broker may win again."""
    with waiting("the next controller"):
        answer = client.act(MoveController())
    before, after = answer["from"], answer["to"]
    return answer, (
        f"controller: broker {before['id']} (epoch {before['epoch']}) -> "
        f"broker {after['id']} (epoch {after['epoch']})"
    )
