"""`klamm network`: faults of the network of a running cluster.

Sends requests to the server and prints the response.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from klamm.cli.action_commands import sends
from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_broker
from klamm.cli.server_options import Answered
from klamm.cluster.counting import are, brokers_text, parse_whole_number
from klamm.cluster.errors import UsageError
from klamm.cluster.status import PAUSED, RUNNING
from klamm.lab.actions.network_actions import (
    Clog,
    Cut,
    DegradeNetwork,
    Delay,
    FailRequests,
    HealNetwork,
    Isolate,
    NetworkAction,
)
from klamm.world.network import Party

_RUNNING: Final = (RUNNING, PAUSED, "starting", "stopping")
"""States of brokers whose process exists, even if it is paused."""

app = command_group(
    help="Cut, clog, delay and degrade network links, and let requests of clients fail.",
    epilog="""
\b
Groups are brokers separated by commas, others (all other brokers), clients or zookeeper.

\b
Examples:
  klamm network isolate 2
  klamm network cut 0 1,2 3,4
  klamm network cut 1 zookeeper
  klamm network cut --one-way 1 2
  klamm network clog --only records 0 others
  klamm network delay --ms 200 0 others
  klamm network degrade --loss 0.1 --reordering 0.3
  klamm network fail-requests --api Produce --error NOT_LEADER_OR_FOLLOWER --times 3
  klamm network fail-requests --api Fetch --drop --broker 1
  klamm network fail-requests --client-id billing --cut --times 1
  klamm network fail-requests --api Heartbeat --delay-ms 5000
  klamm network heal
""",
)
_Groups = Annotated[
    list[str],
    typer.Argument(
        metavar="GROUP GROUP...",
        help="Groups of brokers, others, clients or zookeeper.",
        autocompletion=complete_broker,
    ),
]
_OptionalGroups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[GROUP GROUP...]",
        help="Groups as for klamm network cut. By default all messages with records.",
        autocompletion=complete_broker,
    ),
]
_OneWay = Annotated[
    bool, typer.Option("--one-way", help="Only from the first group to the second one.")
]


def _links(groups: _Groups, one_way: _OneWay = False) -> dict[str, object]:
    """Return the arguments of a LinkAction. Raises UsageError if there are not enough groups."""
    parties = tuple(tuple(map(_party, text.split(","))) for text in groups)
    if one_way and len(parties) != 2:
        raise UsageError("--one-way requires two groups", hint="as in --one-way 1 zookeeper")
    if len(parties) == 1:
        raise UsageError("give at least two groups", hint=f"as in {groups[0]} others")
    if one_way:
        return {"sources": parties[0], "destinations": parties[1]}
    return {"between": parties}


def _links_or_all(groups: _OptionalGroups = None, one_way: _OneWay = False) -> dict[str, object]:
    return _links(groups or [], one_way)


def _party(text: str) -> Party:
    broker_id = parse_whole_number(text)
    return text if broker_id is None else broker_id


def _send(client: ServerClient, action: NetworkAction) -> Answered:
    answer = client.act(action)
    return answer, "\n".join(answer["faults"])


sends(app, Cut, name="cut", more=_links)(_send)
sends(app, Clog, name="clog", more=_links)(_send)
sends(app, Delay, name="delay", more=_links)(_send)
sends(app, DegradeNetwork, name="degrade", more=_links_or_all)(_send)
sends(app, FailRequests, name="fail-requests")(_send)


@sends(app, Isolate, "isolated")
def isolate(client: ServerClient, action: Isolate) -> Answered:
    """The cluster is split into two groups, the listed brokers and the others, so at least one
    broker must be left out. Brokers of the same group continue to replicate. If records are
    produced, a follower that cannot fetch leaves the ISR after replica.lag.time.max.ms. Brokers
    that were isolated before and are not listed now are reconnected to the other unlisted brokers.
    """
    before = client.status().isolated_brokers
    answer = client.act(action)
    isolated = answer["isolated"]
    again = [id_ for id_ in before if id_ not in isolated]
    reconnected = f"; {_brokers(again)} {are(again)} reconnected" if again else ""
    note = _without_effect(client, isolated)
    text = f"{_brokers(isolated)} {are(isolated)} isolated{reconnected}{note}"
    return {**answer, "reconnected": again}, text


@sends(app, HealNetwork)
def heal(client: ServerClient, action: HealNetwork) -> Answered:
    status = client.status()
    isolated, faults = status.isolated_brokers, status.network_faults
    answer = client.act(action)
    ended = [f"{_brokers(isolated)} {are(isolated)} no longer isolated"] if isolated else []
    ended += [f"ended: {fault}" for fault in faults]
    return answer, "\n".join(ended) or "the network has no faults"


def _without_effect(client: ServerClient, isolated: list[int]) -> str:
    """Return a note if the isolation has no effect because all running brokers are in one group."""
    brokers = client.status().brokers
    running = {broker.id for broker in brokers if broker.state in _RUNNING}
    if running.intersection(isolated) and running.difference(isolated):
        return ""
    down = [broker.id for broker in brokers if broker.id not in running]
    return f", but no running broker is cut off from another; not running: {_brokers(down)}"


def _brokers(ids: list[int]) -> str:
    return brokers_text(ids, ", ")
