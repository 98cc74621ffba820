"""`klamm disk`: injects disk faults into a running cluster.

Sends requests to the server and prints the response.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from klamm.brokers.storage.faults import FaultKind
from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_broker, complete_log_dir
from klamm.cli.server_options import Answered, asks_server
from klamm.cli.status import fault_text
from klamm.cluster.errors import UsageError
from klamm.runtime.action_target import Action
from klamm.runtime.actions import FailDisk, HealDisks, SlowDisk

app = command_group(
    help="Inject disk faults into a running cluster.",
    epilog="""
\b
Examples:
  klamm disk fail --broker 1 --kind enospc
  klamm disk fail --broker 1 --log-dir d0 --kind fsync --times 1
  klamm disk fail --journal --kind enospc
  klamm disk slow --broker 2 --bytes-per-s 100000
  klamm disk heal
""",
)

BROKER: Final = typer.Option(
    metavar="N", help="Id of a broker.", min=0, autocompletion=complete_broker
)
LogDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="One of the broker's log.dirs. [default: all]",
        autocompletion=complete_log_dir,
    ),
]


@app.command(
    epilog="""
\b
Examples:
  klamm disk fail --broker 1 --kind enospc --after-bytes 100000
  klamm disk fail --broker 1 --log-dir d0 --kind fsync --times 1
  klamm disk fail --journal --kind eio
"""
)
@asks_server
def fail(
    client: ServerClient,
    kind: Annotated[FaultKind, typer.Option(help="How operations on the disk fail.")],
    broker: Annotated[int | None, BROKER] = None,
    log_dir: LogDir = None,
    journal: Annotated[
        bool, typer.Option("--journal", help="Make the disk that holds the journal fail.")
    ] = False,
    after_bytes: Annotated[
        int,
        typer.Option(
            metavar="BYTES", help="Bytes that can still be written before the fault.", min=0
        ),
    ] = 0,
    times: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            help="Number of failures after which the disk works again. [default: no limit]",
            min=1,
        ),
    ] = None,
) -> Answered:
    """Make the disk of a broker's log directories, or of the journal, fail until klamm disk heal.

    enospc: the disk is full. eio: every operation fails. short-write: only a part of each write
    reaches the file. fsync: every fsync fails, and a part of the unsynced data is lost. The log
    directory goes offline at the next operation that fails, or at once if klamm up runs without
    --segments.
    """
    try:
        action = FailDisk(kind, broker, log_dir, journal, after_bytes, times)
    except ValueError:
        raise UsageError(
            "klamm disk fail requires either --broker or --journal",
            hint=None if log_dir is None else "--log-dir requires --broker",
        ) from None
    return _asked(client, action)


@app.command()
@asks_server
def slow(
    client: ServerClient,
    broker: Annotated[int, BROKER],
    bytes_per_s: Annotated[int, typer.Option(metavar="RATE", help="Maximum rate.", min=1)],
    log_dir: LogDir = None,
) -> Answered:
    """Limit how fast replicas are copied to and from a broker's log directories.

    A follower that cannot keep up leaves the ISR after replica.lag.time.max.ms.
    """
    return _asked(client, SlowDisk(broker, bytes_per_s, log_dir))


@app.command()
@asks_server
def heal(client: ServerClient) -> Answered:
    """End all disk faults.

    A log directory that has failed stays offline until its broker is restarted.
    """
    faults = client.get("/status")["disk_faults"]
    answer = client.act(HealDisks())
    status = client.get("/status")
    lines = [f"healed: {fault_text(fault)}" for fault in faults] or ["there were no disk faults"]
    lines += [
        f"log directory {failed['log_dir']} of broker {failed['broker']} stays offline until the "
        "broker is restarted"
        for failed in status["failed_log_dirs"]
    ]
    lines += [
        f"broker {broker['id']} is still {broker['state']}: klamm broker start {broker['id']}"
        for broker in status["brokers"]
        if broker["reason"] is not None
    ]
    return answer, "\n".join(lines)


def _asked(client: ServerClient, action: Action) -> Answered:
    answer = client.act(action)
    return answer, "\n".join(map(fault_text, answer["disk_faults"]))
