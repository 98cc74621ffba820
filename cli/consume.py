"""`klamm consume`: prints the committed records of a topic of a running cluster.

The consumer runs in the server (server/client_sessions.py). Mirrors kafka.tools.ConsoleConsumer,
without consumer groups.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from klamm.cli.client import ServerClient, ServerUnavailable, find_server
from klamm.cli.client_text import ClientProgress
from klamm.cli.completion import complete_partition_id, complete_topic
from klamm.cli.server_options import DataDirectory, Server
from klamm.cluster.errors import Interrupted, KlammError, UsageError
from klamm.cluster.integers import INT64_MAX
from klamm.server.client_bodies import Polled, ReadRecord

EXAMPLES = """
\b
Examples:
  klamm consume --topic t --from-beginning --timeout-ms 2000
  klamm consume --topic t --partition 0 --offset 1200 --max-messages 10
  klamm consume --topic t --from-time 2026-05-01T12:00:00Z --json
"""
_WAIT_MS: Final = 400
"""Shorter than the time after which a command shows what it waits for."""
_PROCESSED: Final = "Processed a total of"


def consume(
    topic: Annotated[
        str, typer.Option(help="The topic to consume.", autocompletion=complete_topic)
    ],
    partition: Annotated[
        int | None,
        typer.Option(
            min=0, help="One partition. [default: all]", autocompletion=complete_partition_id
        ),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin at the start of the logs.")
    ] = False,
    offset: Annotated[
        int | None, typer.Option(min=0, help="Begin at this offset of --partition.")
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Begin at the first record with this timestamp or a later one: ISO 8601, or ms"
            " since 1970.",
        ),
    ] = None,
    max_messages: Annotated[
        int | None,
        typer.Option(min=1, help="End after this many records. [default: no limit]"),
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="End if no record arrives for this long. [default: no limit]",
        ),
    ] = None,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per record.")] = False,
) -> None:
    """Consume a topic from its end, or from the given position, until Ctrl-C.

    Prints partition, offset and leader epoch of each record. If the brokers have segment files, the
    key and value follow; if their logs are in memory (offsets only), the size in bytes follows.
    """
    wanted = _start(topic, partition, from_beginning, offset, from_time)
    client = find_server(server, data_dir)
    path = f"/consumers/{client.post('/consumers', wanted)['id']}"
    count = 0
    try:
        for record in _records(client, path, timeout_ms):
            typer.echo(msgspec.json.encode(record).decode() if json else _text(record))
            count += 1
            if count == max_messages:
                break
        typer.echo(f"{_PROCESSED} {count} messages", err=True)
    except KeyboardInterrupt:
        raise Interrupted(f"{_PROCESSED} {count} messages") from None
    except KlammError:
        typer.echo(f"{_PROCESSED} {count} messages", err=True)
        raise
    finally:
        # A server that has ended has closed its consumers.
        with suppress(ServerUnavailable):
            client.post(f"{path}/close")


def _start(
    topic: str,
    partition: int | None,
    from_beginning: bool,
    offset: int | None,
    from_time: str | None,
) -> dict[str, object]:
    given = [from_beginning, offset is not None, from_time is not None]
    if sum(given) > 1:
        raise UsageError("--from-beginning, --offset and --from-time are mutually exclusive")
    wanted: dict[str, object] = {"topic": topic, "partition": partition}
    if offset is not None:
        if partition is None:
            raise UsageError(
                "The partition is required when offset is specified.",
                hint="give --partition N --offset N",
            )
        return {**wanted, "start": "offset", "offset": offset}
    if from_time is not None:
        return {**wanted, "start": "time", "timestamp_ms": _timestamp_ms(from_time)}
    return {**wanted, "start": "beginning" if from_beginning else "end"}


def _timestamp_ms(word: str) -> int:
    if word.isdecimal() and len(word) < 20 and int(word) <= INT64_MAX:
        return int(word)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise _not_a_time(word) from None
    if moment.tzinfo is None:
        moment = moment.astimezone(UTC)
    timestamp_ms = int(moment.timestamp() * 1000)
    # ListOffsets reserves negative timestamps: -1 is the end of the log, -2 its beginning.
    if timestamp_ms < 0:
        raise _not_a_time(word)
    return timestamp_ms


def _not_a_time(word: str) -> UsageError:
    return UsageError(
        f"--from-time {word} is not a valid time",
        hint="e.g. 2026-05-01T12:00:00Z or 1777636800000",
    )


class _CountedRecord(msgspec.Struct, frozen=True):
    """A record of an in-memory (offset-only) log."""

    partition: int
    offset: int
    leader_epoch: int
    size_bytes: int


def _records(
    client: ServerClient, path: str, timeout_ms: int | None
) -> Iterator[ReadRecord | _CountedRecord]:
    """Poll the consumer and yield records until none arrives for ``timeout_ms``.

    Raises KlammError if a partition cannot be read any further.
    """
    progress = ClientProgress()
    said: dict[str, None] = {}
    came_s = time.monotonic()
    while True:
        wait_ms = min(_WAIT_MS, timeout_ms or _WAIT_MS)
        polled = client.ask(Polled, f"{path}/poll", {"wait_ms": wait_ms})
        for line in polled.truncations:
            if line not in said:
                said[line] = None
                typer.echo(f"warning: {line}", err=True)
        has_some = False
        for record in _each(polled):
            has_some = True
            yield record
        if polled.errors:
            raise KlammError(
                polled.errors[0], hint="choose another position with --partition and --offset"
            )
        progress.show(polled.waiting_for)
        if has_some:
            came_s = time.monotonic()
        elif timeout_ms is not None and (time.monotonic() - came_s) * 1000 >= timeout_ms:
            return


def _each(polled: Polled) -> Iterator[ReadRecord | _CountedRecord]:
    """Yield every record in the response to a poll.

    Records of an in-memory (offset-only) log arrive as an offset range with a total size, which is
    divided evenly among the records.
    """
    yield from polled.records
    for part in polled.counted:
        start, end, size_bytes = part.start, part.end, part.size_bytes
        for at in range(start, end):
            share = size_bytes * (at + 1 - start) // (end - start)
            before = size_bytes * (at - start) // (end - start)
            yield _CountedRecord(part.partition, at, part.leader_epoch, share - before)


def _text(record: ReadRecord | _CountedRecord) -> str:
    place = f"{record.partition}\t{record.offset}\tleader epoch {record.leader_epoch}"
    if isinstance(record, _CountedRecord):
        return f"{place}\t{record.size_bytes} bytes"
    key = "" if record.key is None else f"{record.key}\t"
    value = "null" if record.value is None else record.value
    return f"{place}\t{key}{value}"
