"""`klamm broker`: kill, start, stop, pause, resume and add brokers of a running cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer

from klamm.cli.action_commands import sends
from klamm.cli.client import ServerClient, find_server
from klamm.cli.command_loading import command_group
from klamm.cli.options import AsJson, print_lines, print_result
from klamm.cli.server_options import Answered, DataDirectory, Server
from klamm.cli.waiting import waiting
from klamm.cluster.api_errors import Errors
from klamm.cluster.counting import brokers_text, listed
from klamm.cluster.integers import INT32_MAX
from klamm.lab.actions.actions import (
    FailLogDir,
    Kill,
    Pause,
    PowerOff,
    Resume,
    SkewClock,
    Start,
    Stop,
)
from klamm.server.states import BrokerRegistration, ChangedBroker, LogDirChange, ShutdownOutcome

SHOWN_PARTITIONS = 10

app = command_group(
    help="Kill, start, stop, pause, power off and add brokers; fail log directories, skew clocks.",
    epilog="""
\b
Examples:
  klamm broker kill 1
  klamm broker start 1
  klamm broker start 1 --no-wait
  klamm broker stop 1
  klamm broker pause 0
  klamm broker resume 0
  klamm broker power-off 2
  klamm broker skew-clock 1 --ms 60000
  klamm broker add --rack a
  klamm broker fail-log-dir 1 kafka-logs
""",
)


@app.command()
def add(
    broker_id: Annotated[
        int | None,
        typer.Argument(
            metavar="[N]",
            min=0,
            max=INT32_MAX,
            help="Id of the new broker. [default: the highest id plus 1]",
        ),
    ] = None,
    rack: Annotated[str | None, typer.Option(help="Rack of the new broker.")] = None,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Add a broker and start it. The new broker is not a controller candidate.

    A broker that is dead in the dump of klamm up --from-dump, and not running, may be added too: it
    gets the rack. A warning is printed to standard error if only some brokers have a rack.
    """
    client = find_server(server, data_dir)
    with waiting("the new broker to register"):
        answer = client.post("/brokers", {"id": broker_id, "rack": rack})
    _warn_of_racks(client, answer["id"])
    print_result(json, answer, [f"broker {answer['id']} is registered"])


@sends(app, Kill, "broker")
def kill(client: ServerClient, action: Kill) -> Answered:
    """In a cluster of more than 40 brokers, most brokers share a session with other brokers. The
    registration of a killed broker that shares its session is deleted at once.
    """
    answer = client.act(action)
    return answer, f"broker {action.broker} is killed; {_session_end(answer)}"


@sends(app, PowerOff, "broker")
def power_off(client: ServerClient, action: PowerOff) -> Answered:
    """When the broker starts again, the journal and klamm explain show what was lost."""
    answer = client.act(action)
    return answer, f"broker {action.broker} is powered off; {_session_end(answer)}"


@sends(app, SkewClock, "broker")
def skew_clock(client: ServerClient, action: SkewClock) -> Answered:
    answer = client.act(action)
    skew = f"skewed by {action.ms} ms" if action.ms else "no longer skewed"
    return answer, f"the clock of broker {action.broker} is {skew}"


@sends(app, Stop, "broker")
def stop(client: ServerClient, action: Stop) -> Answered:
    """Then the broker closes its session, so its registration is deleted at once. The broker
    requests the shutdown up to controlled.shutdown.max.retries times (3), and waits
    controlled.shutdown.retry.backoff.ms (5000) after each failure. Even if all requests fail, the
    broker stops, as in Kafka, and the exit code is 0. The partitions that it still led are printed;
    --json lists them in controlled_shutdown. A paused broker stops without a controlled shutdown.
    """
    with waiting(f"the controlled shutdown of broker {action.broker}"):
        answer = client.act(action)
    behind = shutdown_text(answer["controlled_shutdown"])
    return answer, f"broker {action.broker} is stopped{behind}"


def _no_wait(
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="Fail, as Kafka does, if the broker's previous session has not expired.",
        ),
    ] = False,
) -> dict[str, object]:
    return {"wait": not no_wait}


@sends(app, Start, "broker", more=_no_wait)
def start(client: ServerClient, action: Start) -> Answered:
    """If the broker is still stopping, wait until it has stopped. A broker that is dead in the dump
    of klamm up --from-dump has no rack: klamm broker add starts it with one.
    """
    broker: BrokerRegistration | None = None
    if action.wait:
        broker = client.get(f"/brokers/{action.broker}")
    with _start_wait(broker) if broker else nullcontext():
        answer = client.act(action)
    if broker and broker["state"] == "not started":
        _warn_of_racks(client, broker["id"], again=True)
    return answer, f"broker {action.broker} is registered (after {answer['took_ms']} ms)"


@sends(app, Pause, "broker")
def pause(client: ServerClient, action: Pause) -> Answered:
    answer = client.act(action)
    timeout_ms = answer["session_timeout_ms"]
    return answer, (
        f"broker {action.broker} is paused; its session expires within about {timeout_ms} ms"
    )


@sends(app, Resume, "broker")
def resume(client: ServerClient, action: Resume) -> Answered:
    answer = client.act(action)
    return answer, f"broker {action.broker} is resumed"


@sends(app, FailLogDir, "broker", "log_dir")
def fail_log_dir(client: ServerClient, action: FailLogDir) -> Answered:
    """A broker that loses its last log directory halts as if it were killed: its registration stays
    until its session expires. klamm broker start restarts it with all its log directories. With
    --json, the fields halted and state show whether the broker has halted.
    """
    answer = client.act(action)
    line = f"log directory {action.log_dir} of broker {action.broker} has failed"
    if answer["halted"] and answer["state"] == "paused":
        line += "; it is the last: the broker halts as soon as it is resumed"
    elif answer["halted"]:
        line += f"; it was the last: the broker has halted, {_session_end(answer)}"
    return answer, line


def shutdown_text(shutdown: ShutdownOutcome) -> str:
    """Describe the outcome of a controlled shutdown, as text that follows "is stopped".

    The text is empty if the controlled shutdown succeeded.
    """
    if shutdown["outcome"] == "succeeded":
        return ""
    if shutdown["outcome"] == "not attempted":
        return " without a controlled shutdown: the controller elects other leaders only now"
    if shutdown["remaining"]:
        why = f"it still led {listed(shutdown['remaining'], SHOWN_PARTITIONS)}"
    elif shutdown["error"] != Errors.NONE.name:
        why = f"the controller responded with {shutdown['error']}"
    else:
        why = "no controller responded"
    return f"; its controlled shutdown failed: {why}"


def _warn_of_racks(client: ServerClient, added: int, *, again: bool = False) -> None:
    found = client.get("/brokers")
    live = {added, *found["live"]}
    racks = {one["id"]: one["rack"] for one in found["brokers"] if one["id"] in live}
    print_lines(rack_warning(added, racks, again=again), err=True)


def rack_warning(added: int, racks: Mapping[int, str | None], *, again: bool = False) -> list[str]:
    """Return a warning and a hint if only some brokers have a rack, otherwise an empty list.

    The hint is to stop the smaller group. ``added``: the id of the broker that was just started; it
    may be added ``again``, with a rack.
    """
    having = [id_ for id_, rack in sorted(racks.items()) if rack is not None]
    lacking = sorted(racks.keys() - {*having})
    fewer, others = sorted((having, lacking), key=lambda ids: (len(ids), added not in ids))
    if not fewer:
        return []
    mine, theirs, option = ("a", "none", "without") if fewer is having else ("no", "one", "with")
    other = f"broker {added}" if again and fewer == [added] else "another broker"
    stops = listed([f"klamm broker stop {id_}" for id_ in fewer], SHOWN_PARTITIONS)
    return [
        f"warning: {_have(fewer)} {mine} rack, but {_have(others)} {theirs}: until "
        "all or none of the running brokers have a rack, topics can only be created with "
        "--replica-assignment",
        f"hint: {stops}, then add {other} {option} --rack",
    ]


def _have(ids: Sequence[int]) -> str:
    more = " and others" if len(ids) > SHOWN_PARTITIONS else ""
    verb = "has" if len(ids) == 1 else "have"
    return f"{brokers_text(ids[:SHOWN_PARTITIONS], ', ')}{more} {verb}"


def _session_end(killed: ChangedBroker | LogDirChange) -> str:
    if killed["is_session_shared"]:
        return "its registration is deleted"
    return f"its session expires within about {killed['session_timeout_ms']} ms"


def _start_wait(broker: BrokerRegistration) -> AbstractContextManager[None]:
    """Context manager that shows what a starting broker waits for, e.g. the expiry of a session."""
    broker_id = broker["id"]
    if broker["state"] == "stopping":
        return waiting(f"broker {broker_id} to stop", is_certain=True)
    if broker["registered"] and broker["state"] not in ("running", "paused", "starting"):
        session, timeout_ms = broker["session"], broker["session_timeout_ms"]
        what = f"ZooKeeper to expire session {session} of broker {broker_id}"
        return waiting(f"{what} (timeout {timeout_ms} ms)", is_certain=True)
    return waiting(f"broker {broker_id} to register")
