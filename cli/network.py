"""`klamm network`: faults of the network of a running cluster.

Sends requests to the server and prints the response.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_broker
from klamm.cli.options import finite
from klamm.cli.server_options import Answered, asks_server
from klamm.cluster.counting import are, brokers_text, parse_whole_number
from klamm.cluster.errors import UsageError
from klamm.runtime.action_target import PAUSED, RUNNING
from klamm.runtime.network import Party, Traffic
from klamm.runtime.network_actions import (
    MAX_DELAY_MS,
    Clog,
    Cut,
    DegradeNetwork,
    Delay,
    FailRequests,
    HealNetwork,
    Isolate,
    LinkAction,
)
from klamm.runtime.request_faults import KAFKAS_ERRORS

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
_OneWay = Annotated[
    bool, typer.Option("--one-way", help="Only from the first group to the second one.")
]
_Only = Annotated[
    Traffic | None,
    typer.Option(help="Only messages that carry records, or only control requests."),
]
_FAIL_HINT: Final = "klamm network fail-requests --help has examples"
_RATE: Final = typer.Option(min=0.0, max=1.0, callback=finite, help="Probability, from 0 to 1.")


@app.command()
@asks_server
def cut(
    client: ServerClient, groups: _Groups, one_way: _OneWay = False, only: _Only = None
) -> Answered:
    """Cut the links between groups: messages are lost until klamm network heal."""
    return _act(client, Cut, groups, one_way, only)


@app.command()
@asks_server
def clog(
    client: ServerClient, groups: _Groups, one_way: _OneWay = False, only: _Only = None
) -> Answered:
    """Hold messages between groups, and deliver them in order at klamm network heal."""
    return _act(client, Clog, groups, one_way, only)


@app.command()
@asks_server
def delay(
    client: ServerClient,
    groups: _Groups,
    ms: Annotated[int, typer.Option(help="The delay in milliseconds.", min=1, max=MAX_DELAY_MS)],
    one_way: _OneWay = False,
    only: _Only = None,
) -> Answered:
    """Deliver messages between groups later, in order."""
    return _act(client, Delay, groups, one_way, only, ms=ms)


@app.command()
@asks_server
def degrade(
    client: ServerClient,
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP GROUP...]",
            help="Groups as for klamm network cut. By default all messages with records.",
            autocompletion=complete_broker,
        ),
    ] = None,
    loss: Annotated[float, _RATE] = 0.0,
    repetition: Annotated[float, _RATE] = 0.0,
    reordering: Annotated[float, _RATE] = 0.0,
    one_way: _OneWay = False,
    only: _Only = None,
) -> Answered:
    """Lose, repeat and reorder messages. Replaces the rates of an earlier call."""
    rates = {"loss": loss, "repetition": repetition, "reordering": reordering}
    if not any(rates.values()):
        raise UsageError("one of --loss, --repetition and --reordering must be greater than 0")
    return _act(client, DegradeNetwork, groups or [], one_way, only, **rates)


@app.command("fail-requests")
@asks_server
def fail_requests(
    client: ServerClient,
    api: Annotated[
        str | None, typer.Option(help="Kafka's name of an API, e.g. Fetch; by default, all.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option(help="Client id of one of Kafka's own clients; by default, all.")
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option(min=0, help="By default, all brokers.", autocompletion=complete_broker),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            help="Refuse requests with this error, e.g. NOT_LEADER_OR_FOLLOWER; Kafka's errors are "
            f"listed at {KAFKAS_ERRORS}"
        ),
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Lose requests.")] = False,
    cut: Annotated[
        bool, typer.Option("--cut", help="Lose requests, and break their connections.")
    ] = False,
    delay_ms: Annotated[
        int | None, typer.Option(min=1, max=MAX_DELAY_MS, help="Delay requests by this time.")
    ] = None,
    times: Annotated[
        int | None,
        typer.Option(min=1, help="Number of requests; by default all, until klamm network heal."),
    ] = None,
) -> Answered:
    """Let requests of clients fail: give one of --error, --drop, --cut and --delay-ms."""
    if sum(map(bool, (error, drop, cut, delay_ms))) != 1:
        raise UsageError("give one of --error, --drop, --cut and --delay-ms", hint=_FAIL_HINT)
    try:
        action = FailRequests(
            api=api,
            client=client_id,
            broker=broker,
            error=error,
            drop=drop,
            cut=cut,
            delay_ms=delay_ms,
            times=times,
        )
    except ValueError as problem:
        raise UsageError(str(problem), hint=_FAIL_HINT) from None
    answer = client.act(action)
    return answer, "\n".join(answer["faults"])


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

    The cluster is split into two groups, the listed brokers and the others, so at least one broker
    must be left out. Brokers of the same group continue to replicate, and ZooKeeper, the controller
    and clients can still reach all brokers. If records are produced, a follower that cannot fetch
    leaves the ISR after replica.lag.time.max.ms. Replaces any earlier isolation: brokers that were
    isolated before and are not listed now are reconnected to the other unlisted brokers.
    """
    before = client.get("/status")["isolated_brokers"]
    answer = client.act(Isolate(tuple(brokers)))
    isolated = answer["isolated"]
    again = [id_ for id_ in before if id_ not in isolated]
    reconnected = f"; {_brokers(again)} {are(again)} reconnected" if again else ""
    note = _without_effect(client, isolated)
    text = f"{_brokers(isolated)} {are(isolated)} isolated{reconnected}{note}"
    return {**answer, "reconnected": again}, text


@app.command()
@asks_server
def heal(client: ServerClient) -> Answered:
    """End all faults of the network and of requests, and deliver messages on clogged links."""
    status = client.get("/status")
    isolated, faults = status["isolated_brokers"], status["network_faults"]
    answer = client.act(HealNetwork())
    ended = [f"{_brokers(isolated)} {are(isolated)} no longer isolated"] if isolated else []
    ended += [f"ended: {fault}" for fault in faults]
    return answer, "\n".join(ended) or "the network has no faults"


def _act(
    client: ServerClient,
    action: type[LinkAction],
    texts: list[str],
    is_one_way: bool,
    only: Traffic | None,
    **arguments: Any,
) -> Answered:
    groups = tuple(tuple(map(_party, text.split(","))) for text in texts)
    if is_one_way and len(groups) != 2:
        raise UsageError("--one-way requires two groups", hint="as in --one-way 1 zookeeper")
    if len(groups) == 1:
        raise UsageError("give at least two groups", hint=f"as in {texts[0]} others")
    links: dict[str, Any] = {"between": groups}
    if is_one_way:
        links = {"sources": groups[0], "destinations": groups[1]}
    try:
        answer = client.act(action(**links, only=only, **arguments))
    except ValueError as error:
        raise UsageError(str(error), hint="klamm network --help") from None
    return answer, "\n".join(answer["faults"])


def _party(text: str) -> Party:
    broker_id = parse_whole_number(text)
    return text if broker_id is None else broker_id


def _without_effect(client: ServerClient, isolated: list[int]) -> str:
    """Return a note if the isolation has no effect because all running brokers are in one group."""
    brokers = client.get("/status")["brokers"]
    running = {broker["id"] for broker in brokers if broker["state"] in _RUNNING}
    if running.intersection(isolated) and running.difference(isolated):
        return ""
    down = [broker["id"] for broker in brokers if broker["id"] not in running]
    return f", but no running broker is cut off from another; not running: {_brokers(down)}"


def _brokers(ids: list[int]) -> str:
    return brokers_text(ids, ", ")
