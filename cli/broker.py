"""`klamm broker`: kill, start, stop, pause, resume and add brokers of a running cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_broker
from klamm.cli.options import Answered, asks_server
from klamm.cluster.api_errors import Errors
from klamm.runtime.actions import FailLogDir, Kill, Pause, PowerOff, Resume, Start, Stop

SHOWN_PARTITIONS = 10

app = command_group(
    help="Kill, start, stop, pause, resume and add brokers of a running cluster.",
    epilog="""
\b
Examples:
  klamm broker kill 1
  klamm broker start 1 --no-wait
  klamm broker power-off 2
  klamm broker add --rack a
  klamm broker fail-log-dir 1 kafka-logs
""",
)

BrokerId = Annotated[
    int,
    typer.Argument(metavar="N", help="The broker's id.", min=0, autocompletion=complete_broker),
]


@app.command()
@asks_server
def add(
    client: ServerClient,
    broker_id: Annotated[
        int | None, typer.Argument(metavar="[N]", min=0, help="Its id. [default: the next one]")
    ] = None,
    rack: Annotated[str | None, typer.Option(help="Its rack.")] = None,
) -> Answered:
    """Add a broker and start it. The new broker is not a controller candidate."""
    answer = client.post("/brokers", {"id": broker_id, "rack": rack})
    return answer, f"broker {answer['id']} is registered"


@app.command()
@asks_server
def kill(client: ServerClient, broker_id: BrokerId) -> Answered:
    """Kill a broker as kill -9 does: its session stays until ZooKeeper expires it.

    In a cluster of more than 40 brokers most brokers share sessions. The registration of such a
    broker is deleted at once.
    """
    answer = client.act(Kill(broker_id))
    return answer, f"broker {broker_id} is killed; {_session_end(answer)}"


@app.command("power-off")
@asks_server
def power_off(client: ServerClient, broker_id: BrokerId) -> Answered:
    """Kill a broker together with its machine: unflushed data is lost from a randomly chosen
    offset onward. When the broker starts again, the journal and klamm explain show what was lost.
    """
    answer = client.act(PowerOff(broker_id))
    return answer, f"broker {broker_id} is powered off; {_session_end(answer)}"


@app.command()
@asks_server
def stop(client: ServerClient, broker_id: BrokerId) -> Answered:
    """Stop a broker with a controlled shutdown: the controller first moves its leaderships to
    other brokers. Then the broker closes its session, so its registration is deleted at once.

    The broker requests the shutdown up to controlled.shutdown.max.retries times (3), and waits
    controlled.shutdown.retry.backoff.ms (5000) after each failure. Even if all requests fail, the
    broker stops, as in Kafka, and the exit code is 0. The partitions that it still led are
    printed, and listed in controlled_shutdown of --json. A paused broker stops without a
    controlled shutdown.
    """
    answer = client.act(Stop(broker_id))
    behind = shutdown_text(answer["controlled_shutdown"])
    return answer, f"broker {broker_id} is stopped{behind}"


@app.command()
@asks_server
def start(
    client: ServerClient,
    broker_id: BrokerId,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait", help="Fail, as Kafka does, if the previous session has not expired."
        ),
    ] = False,
) -> Answered:
    """Start a broker again. If its previous session still exists, wait until it expires."""
    if not no_wait:
        _announce_wait(client, broker_id)
    answer = client.act(Start(broker_id, wait=not no_wait))
    return answer, f"broker {broker_id} is registered (after {answer['took_ms']} ms)"


@app.command()
@asks_server
def pause(client: ServerClient, broker_id: BrokerId) -> Answered:
    """Freeze a broker and its controller, including heartbeats, like a long garbage collection."""
    answer = client.act(Pause(broker_id))
    timeout_ms = answer["session_timeout_ms"]
    return answer, (
        f"broker {broker_id} is paused; its session expires within about {timeout_ms} ms"
    )


@app.command()
@asks_server
def resume(client: ServerClient, broker_id: BrokerId) -> Answered:
    """Resume a paused broker where it was interrupted."""
    answer = client.act(Resume(broker_id))
    return answer, f"broker {broker_id} is resumed"


@app.command("fail-log-dir")
@asks_server
def fail_log_dir(
    client: ServerClient,
    broker_id: BrokerId,
    log_dir: Annotated[str, typer.Argument(metavar="DIR", help="One of its log.dirs.")],
) -> Answered:
    """Make a log directory of a broker fail: the replicas in it go offline.

    A broker that loses its last log directory halts as if it were killed: its registration stays
    until its session expires. klamm broker start restarts it with all its log directories.
    --json prints halted and state.
    """
    answer = client.act(FailLogDir(broker_id, log_dir))
    line = f"log directory {log_dir} of broker {broker_id} has failed"
    if answer["halted"] and answer["state"] == "paused":
        line += "; it is the last: the broker halts as soon as it is resumed"
    elif answer["halted"]:
        line += f"; it was the last: the broker has halted, {_session_end(answer)}"
    return answer, line


def shutdown_text(shutdown: Mapping[str, Any]) -> str:
    """Describe the outcome of a controlled shutdown, to be appended to "is stopped".

    Empty if the controlled shutdown succeeded.
    """
    if shutdown["outcome"] == "succeeded":
        return ""
    if shutdown["outcome"] == "not attempted":
        return " without a controlled shutdown: the controller elects other leaders only now"
    remaining = shutdown["remaining"]
    if remaining:
        shown = ", ".join(remaining[:SHOWN_PARTITIONS])
        more = len(remaining) - SHOWN_PARTITIONS
        why = f"it still led {shown}{f' and {more} more' if more > 0 else ''}"
    elif shutdown["error"] != Errors.NONE.name:
        why = f"the controller answered {shutdown['error']}"
    else:
        why = "no controller answered"
    return f"; its controlled shutdown failed: {why}"


def _session_end(killed: Mapping[str, Any]) -> str:
    if killed["is_session_shared"]:
        return "its registration is deleted"
    return f"its session expires within about {killed['session_timeout_ms']} ms"


def _announce_wait(client: ServerClient, broker_id: int) -> None:
    """Announce that the start waits for a session to expire.

    Prints to standard error, because standard output may be JSON.
    """
    broker: dict[str, Any] = client.get(f"/brokers/{broker_id}")
    if broker["registered"] and broker["state"] not in ("running", "paused", "starting"):
        typer.echo(
            f"ZooKeeper still holds session {broker['session']} of broker {broker_id}: waiting "
            f"until it expires (timeout {broker['session_timeout_ms']} ms)",
            err=True,
        )
