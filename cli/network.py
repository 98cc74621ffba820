"""`klamm network`: cuts brokers of a running cluster off from each other. Asks and prints only."""

from __future__ import annotations

from typing import Annotated

import typer

from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_broker
from klamm.cli.options import Answered, asks_server
from klamm.runtime.actions import Isolate

app = command_group(
    help="Cut brokers of a running cluster off from each other.",
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
        typer.Argument(
            metavar="N...", help="Ids of brokers.", min=0, autocompletion=complete_broker
        ),
    ],
) -> Answered:
    """Cut brokers off: records travel among these and among the others, not between them.

    ZooKeeper, the controller and clients reach all of them. A follower that cannot fetch falls out
    of the ISR after replica.lag.time.max.ms, if anything is produced. Who was cut off before and is
    not named is so no more.
    """
    return _isolate(client, brokers)


@app.command()
@asks_server
def heal(client: ServerClient) -> Answered:
    """Let records travel among all brokers again."""
    return _isolate(client, [])


def _isolate(client: ServerClient, brokers: list[int]) -> Answered:
    answer = client.act(Isolate(tuple(brokers)))
    isolated = answer["isolated"]
    ids = ", ".join(map(str, isolated))
    if not isolated:
        return answer, "no broker is cut off"
    if len(isolated) == 1:
        return answer, f"broker {ids} is cut off from the others"
    return answer, f"brokers {ids} are cut off from the others"
