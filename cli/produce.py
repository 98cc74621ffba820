"""`klamm produce`: sends records to a topic of a running cluster, and says what became of them.

The producer lives in the server (server/client_sessions.py); here are lines, rates, and words.
Mirrors kafka.tools.ConsoleProducer and org.apache.kafka.tools.ProducerPerformance.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from cli.client import ServerClient, find_server
from cli.client_text import Progress, not_acknowledged_lines, offsets_lines
from cli.options import AsJson, DataDirectory, Server, print_json
from cluster.errors import UsageError

EXAMPLES = """
\b
Examples:
  klamm produce --topic t --records 10000 --record-size 200
  klamm produce --topic t --records 60000 --rate 1000 --acks all --idempotent
  printf 'a:1\\nb:2\\n' | klamm produce --topic t --key-separator :
"""
FAILED: Final = 1
INTERRUPTED: Final = 130
_ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}
_CHUNK_BYTES: Final = 1 << 16
_CHUNK_RECORDS: Final = 10_000
_MAX_UNDECIDED: Final = 100_000
_TICK_S: Final = 0.1


def produce(
    topic: Annotated[str, typer.Option(help="The topic to produce to.")],
    partition: Annotated[
        int | None, typer.Option(min=0, help="The partition. [default: by key, or in turn]")
    ] = None,
    acks: Annotated[
        str, typer.Option(metavar="0|1|all", help="Who must have a record before it counts.")
    ] = "all",
    records: Annotated[
        int | None,
        typer.Option(min=1, help="So many generated records instead of the lines of the input."),
    ] = None,
    record_size: Annotated[
        int, typer.Option("--record-size", min=1, help="Bytes of a generated record.")
    ] = 100,
    rate: Annotated[
        float | None, typer.Option(min=0.1, help="Generated records a second. [default: no limit]")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", help="Lines are key, this, and value. [default: no keys]"),
    ] = None,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="Store nothing twice and keep the order.")
    ] = False,
    timeout_ms: Annotated[
        int,
        typer.Option(
            "--timeout-ms", min=1, help="How long a record is tried (delivery.timeout.ms)."
        ),
    ] = 120_000,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Produce to a topic: the lines of standard input, or generated records.

    Ends once every record is acknowledged or given up, and says how many were: 0 if all are
    acknowledged, 1 if not. Ctrl-C ends it sooner; what is not decided then is in doubt. Logs that
    only count keep how many records there are and their bytes, no keys and no values.
    """
    if acks not in _ACKS:
        raise UsageError(f"--acks {acks}", hint="0, 1 or all")
    client = find_server(server, data_dir)
    opened = client.post(
        "/producers",
        {
            "topic": topic,
            "partition": partition,
            "acks": _ACKS[acks],
            "enable_idempotence": idempotent,
            "delivery_timeout_ms": timeout_ms,
            "request_timeout_ms": min(30_000, timeout_ms),
        },
    )
    path = f"/producers/{opened['id']}"
    if records is None:
        batches = _lines(key_separator)
    else:
        batches = _generated(records, record_size, rate)
    begun_s = time.monotonic()
    status, is_interrupted = _produce(client, path, batches)
    _tell(status, time.monotonic() - begun_s, json)
    if is_interrupted:
        raise typer.Exit(INTERRUPTED)
    has_lost = status["failed"] or (status["in_doubt"] and _ACKS[acks] != 0)
    if has_lost:
        raise typer.Exit(FAILED)


def _produce(
    client: ServerClient, path: str, batches: Iterator[dict[str, Any]]
) -> tuple[dict[str, Any], bool]:
    """Send everything and wait for it; the last status, and whether it was interrupted."""
    progress = Progress()
    try:
        for batch in batches:
            status = client.post(f"{path}/records", {**batch, "max_undecided": _MAX_UNDECIDED})
            progress.show(status)
            while status["undecided"] > _MAX_UNDECIDED:
                status = client.post(f"{path}/records", {"wait_ms": 1_000})
                progress.show(status)
        while True:
            status = client.post(f"{path}/close", {"wait_ms": 1_000})
            if not status["undecided"]:
                return status, False
            progress.show(status)
    except KeyboardInterrupt:
        return client.post(f"{path}/close", {"wait_ms": 0, "gives_up": True}), True
    except BaseException:
        client.post(f"{path}/close", {"wait_ms": 0, "gives_up": True})
        raise
    finally:
        progress.end()


def _generated(records: int, size_bytes: int, rate_per_s: float | None) -> Iterator[dict[str, Any]]:
    """So many records, as fast as they are taken or at a rate."""
    sent, begun_s = 0, time.monotonic()
    while sent < records:
        if rate_per_s is None:
            due = sent + _CHUNK_RECORDS
        else:
            due = int((time.monotonic() - begun_s + _TICK_S) * rate_per_s)
            if due <= sent:
                time.sleep(max(_TICK_S, (sent + 1) / rate_per_s - time.monotonic() + begun_s))
                continue
        count = min(due, records) - sent
        sent += count
        yield {"record_count": count, "record_size_bytes": size_bytes}


def _lines(key_separator: str | None) -> Iterator[dict[str, Any]]:
    """The lines of standard input, as many at once as have come."""
    number, left = 0, b""
    while chunk := os.read(sys.stdin.fileno(), _CHUNK_BYTES):
        *lines, left = (left + chunk).split(b"\n")
        if lines:
            yield _records(lines, number, key_separator)
            number += len(lines)
    if left:
        yield _records([left], number, key_separator)


def _records(lines: list[bytes], before: int, key_separator: str | None) -> dict[str, Any]:
    records = [
        _record(line.decode(errors="replace"), before + n, key_separator)
        for n, line in enumerate(lines, 1)
    ]
    return {"records": records}


def _record(line: str, number: int, key_separator: str | None) -> dict[str, Any]:
    """Raises UsageError with Kafka's words for a line without a key."""
    if key_separator is None:
        return {"value": line}
    key, found, value = line.partition(key_separator)
    if not found:
        raise UsageError(
            f"No key found on line number {number}: {line}",
            hint=f"lines are KEY{key_separator}VALUE",
        )
    return {"key": key, "value": value}


def _tell(status: dict[str, Any], took_s: float, json: bool) -> None:
    rate = status["acknowledged"] / took_s if took_s else 0.0
    if json:
        print_json({**status, "took_ms": round(took_s * 1000), "records_per_s": round(rate, 1)})
        return
    doubt = f", {status['in_doubt']} in doubt" if status["in_doubt"] else ""
    typer.echo(
        f"{status['acknowledged']} records acknowledged, {status['failed']} failed{doubt}; "
        f"{rate:.0f} records/s"
    )
    for line in (*offsets_lines(status["offsets"]), *not_acknowledged_lines(status)):
        typer.echo(line)
