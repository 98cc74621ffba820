"""`klamm disk`: injects disk faults into a running cluster. Sends requests and prints only."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from klamm.brokers.storage.faults import FaultKind
from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_broker
from klamm.cli.options import Answered, asks_server
from klamm.cli.status import fault_text
from klamm.cluster.errors import UsageError
from klamm.runtime.actions import Action, FailDisk, HealDisks, SlowDisk

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
    str | None, typer.Option(metavar="DIR", help="One of the broker's log.dirs. [default: all]")
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
    journal: Annotated[bool, typer.Option("--journal", help="Disk of the journal.")] = False,
    after_bytes: Annotated[
        int, typer.Option(metavar="BYTES", help="Bytes written before the fault starts.", min=0)
    ] = 0,
    times: Annotated[
        int | None,
        typer.Option(metavar="COUNT", help="Failures before it works again. [default: all]", min=1),
    ] = None,
) -> Answered:
    """Make the disk of a broker's log directories, or of the journal, fail until klamm disk heal.

    enospc: the disk is full. eio: every operation fails. short-write: only part of each write
    reaches the file. fsync: every fsync fails, and part of the unsynced data is lost.
    A log directory goes offline at the next failing operation; without --segments, at once.
    """
    try:
        action = FailDisk(kind, broker, log_dir, journal, after_bytes, times)
    except ValueError:
        raise UsageError(
            "klamm disk fail requires either --broker or --journal",
            hint="--log-dir requires --broker",
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

    A failed log directory stays offline until its broker is restarted.
    """
    return _asked(client, HealDisks())


def _asked(client: ServerClient, action: Action) -> Answered:
    answer = client.act(action)
    return answer, "\n".join(map(fault_text, answer["disk_faults"])) or "no disk faults"
