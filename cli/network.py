"""`klamm network`: isolates brokers of a running cluster. Sends requests and prints only."""

from __future__ import annotations

from typing import Annotated

import typer

from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_broker
from klamm.cli.options import Answered, asks_server
from klamm.runtime.actions import Isolate

app = command_group(
    help="Isolate brokers of a running cluster from each other.",
    epilog="""
\b
Examples:
  klamm network isolate 2
  klamm network isolate 0 1
  klamm network heal
""",
)


@app.command()
@asks_server
def isolate(
    client: ServerClient,
    brokers: Annotated[
        list[int],
        typer.Argument(metavar="N...", help="Broker ids.", min=0, autocompletion=complete_broker),
    ],
) -> Answered:
    """Isolate brokers: stop replication between the listed brokers and all other brokers.

    Brokers on the same side continue to replicate, and ZooKeeper, the controller and clients reach
    all brokers. If records are produced, a follower that cannot fetch leaves the ISR after
    replica.lag.time.max.ms. Replaces any earlier isolation; brokers that are not listed are
    reconnected.
    """
    return _isolate(client, brokers)


@app.command()
@asks_server
def heal(client: ServerClient) -> Answered:
    """End the isolation: all brokers can replicate from each other again."""
    return _isolate(client, [])


def _isolate(client: ServerClient, brokers: list[int]) -> Answered:
    answer = client.act(Isolate(tuple(brokers)))
    isolated = answer["isolated"]
    ids = ", ".join(map(str, isolated))
    if not isolated:
        return answer, "no broker is isolated"
    if len(isolated) == 1:
        return answer, f"broker {ids} is isolated"
    return answer, f"brokers {ids} are isolated"
