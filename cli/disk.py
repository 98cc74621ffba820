"""`klamm disk`: injects disk faults into a running cluster. Sends requests and prints only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from brokers.storage.faults import FaultKind
from cli.client import find_server
from cli.options import AsJson, DataDirectory, Server, print_json
from cli.status import fault_text
from cluster.errors import UsageError

app = typer.Typer(
    help="Inject disk faults into a running cluster.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
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

LogDir = Annotated[
    str | None, typer.Option(metavar="DIR", help="One of the broker's log.dirs. [default: all]")
]


@app.callback()
def disk() -> None:
    """Inject disk faults into a running cluster."""


@app.command(
    epilog="""
\b
Examples:
  klamm disk fail --broker 1 --kind enospc --after-bytes 100000
  klamm disk fail --broker 1 --log-dir d0 --kind fsync --times 1
  klamm disk fail --journal --kind eio
"""
)
def fail(
    kind: Annotated[FaultKind, typer.Option(help="How operations on the disk fail.")],
    broker: Annotated[int | None, typer.Option(metavar="N", help="Id of a broker.", min=0)] = None,
    log_dir: LogDir = None,
    journal: Annotated[bool, typer.Option("--journal", help="Disk of the journal.")] = False,
    after_bytes: Annotated[
        int, typer.Option(metavar="BYTES", help="Bytes written before the fault starts.", min=0)
    ] = 0,
    times: Annotated[
        int | None,
        typer.Option(metavar="COUNT", help="Failures before it works again. [default: all]", min=1),
    ] = None,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Make the disk of a broker's log directories, or of the journal, fail until klamm disk heal.

    enospc: the disk is full. eio: every operation fails. short-write: only part of each write
    reaches the file. fsync: every fsync fails, and part of the unsynced data is lost.
    A log directory goes offline at the next failing operation; without --segments, at once.
    """
    if (broker is None) != journal or (journal and log_dir is not None):
        raise UsageError(
            "klamm disk fail needs either --broker or --journal",
            hint="--log-dir is for one log directory of a broker",
        )
    wanted = {
        "kind": kind,
        "broker": broker,
        "log_dir": log_dir,
        "journal": journal,
        "after_bytes": after_bytes,
        "times": times,
    }
    _print(json, find_server(server, data_dir).post("/disks/fail", wanted))


@app.command()
def slow(
    broker: Annotated[int, typer.Option(metavar="N", help="Id of a broker.", min=0)],
    bytes_per_s: Annotated[int, typer.Option(metavar="RATE", help="Maximum rate.", min=1)],
    log_dir: LogDir = None,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Limit how fast replicas are copied to and from a broker's log directories.

    A follower that cannot keep up leaves the ISR after replica.lag.time.max.ms.
    """
    wanted = {"broker": broker, "log_dir": log_dir, "bytes_per_s": bytes_per_s}
    _print(json, find_server(server, data_dir).post("/disks/slow", wanted))


@app.command()
def heal(server: Server = None, data_dir: DataDirectory = None, json: AsJson = False) -> None:
    """End all disk faults.

    A failed log directory stays offline until its broker is restarted.
    """
    _print(json, find_server(server, data_dir).post("/disks/heal"))


def _print(json: bool, answer: Mapping[str, Any]) -> None:
    if json:
        print_json(answer)
        return
    for fault in answer["disk_faults"]:
        typer.echo(fault_text(fault))
    if not answer["disk_faults"]:
        typer.echo("no disk has a fault")
