"""`klamm produce`: sends records to a topic of a running cluster and reports the outcome.

The producer runs in the server (server/client_sessions.py); this file reads lines, limits the rate
and prints. Mirrors kafka.tools.ConsoleProducer and org.apache.kafka.tools.ProducerPerformance.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterator, Mapping
from fcntl import ioctl
from termios import FIONREAD
from typing import Annotated, Final, NamedTuple

import msgspec
import typer

from klamm.brokers.logs.record_batch import COMPRESSIONS
from klamm.cli.client import ServerClient, ServerUnavailable, find_server
from klamm.cli.client_text import ClientProgress, not_acknowledged_lines, offsets_lines, rate_text
from klamm.cli.completion import complete_partition_id, complete_topic, word_completion
from klamm.cli.errors import FAILED
from klamm.cli.options import AsJson, finite, print_result
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.terminal import STATUS_LINE
from klamm.cluster.counting import plural
from klamm.cluster.errors import Interrupted, KlammError, UsageError
from klamm.server.client_bodies import MAX_RECORD_BYTES, ProducerStatus

EXAMPLES = """
\b
Examples:
  klamm produce --topic t --records 10000 --record-size 200
  klamm produce --topic t --records 60000 --rate 1000 --acks all --idempotent
  printf 'a:1\\nb:2\\n' | klamm produce --topic t --key-separator :
"""
_ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}
_CHUNK_BYTES: Final = 1 << 16
_CHUNK_RECORDS: Final = 10_000
_MAX_UNDECIDED: Final = 100_000
_RECORD_SIZE_BYTES: Final = 100
_TICK_S: Final = 0.1
_STDIN: Final = 0
_NOTHING_SENT: Final = ProducerStatus(
    sent=0,
    acknowledged=0,
    failed=0,
    in_doubt=0,
    undecided=0,
    offsets=[],
    not_acknowledged=[],
    waiting_for=[],
)


class _Batch(NamedTuple):
    """The number of records in the body of a request that sends them."""

    record_count: int
    body: dict[str, object]


Partition = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="The partition. [default: by key, or round-robin]",
        autocompletion=complete_partition_id,
    ),
]
Acks = Annotated[
    str,
    typer.Option(
        metavar="0|1|all",
        help="Replicas that must acknowledge a record.",
        autocompletion=word_completion("0", "1", "all"),
    ),
]


def produce(
    topic: Annotated[
        str, typer.Option(help="The topic to produce to.", autocompletion=complete_topic)
    ],
    partition: Partition = None,
    acks: Acks = "all",
    records: Annotated[
        int | None,
        typer.Option(min=1, help="Number of generated records to send instead of input lines."),
    ] = None,
    record_size: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_RECORD_BYTES, help="Bytes per generated record. [default: 100]"
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.1, callback=finite, help="Records per second. [default: no limit]"),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(help="Text between key and value. [default: no keys]"),
    ] = None,
    compression_codec: Annotated[
        str,
        typer.Option(metavar="|".join(COMPRESSIONS), help="Compression of batches."),
    ] = "none",
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="Use an idempotent producer.")
    ] = False,
    timeout_ms: Annotated[
        int,
        typer.Option(min=1, help="Time limit for delivering a record (delivery.timeout.ms)."),
    ] = 120_000,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Produce the lines of standard input, or generated records, to a topic.

    Ends when every record is acknowledged or has failed, and prints the counts. The exit code is 0
    if all records are acknowledged, else 1. With --acks 0, every record is reported as in doubt and
    the exit code is 0. After Ctrl-C, records without a response are in doubt. Offset-only
    (in-memory) logs do not keep keys and values.
    """
    if acks not in _ACKS:
        raise UsageError(f"--acks {acks}: unknown value", hint="use 0, 1 or all")
    _check_source(records, record_size, key_separator)
    wanted = {
        "topic": topic,
        "partition": partition,
        "acks": _ACKS[acks],
        "enable_idempotence": idempotent,
        "compression_type": compression_codec,
        "delivery_timeout_ms": timeout_ms,
        "request_timeout_ms": min(30_000, timeout_ms),
    }
    sending = _Sending(find_server(server, data_dir), wanted)
    if records is None:
        batches = _lines(key_separator, rate)
    else:
        batches = _generated(records, record_size or _RECORD_SIZE_BYTES, rate)
    status = _run(sending, batches, json)
    has_lost = status.failed or (status.in_doubt and _ACKS[acks] != 0)
    if has_lost:
        raise typer.Exit(FAILED)


def _check_source(records: int | None, record_size: int | None, key_separator: str | None) -> None:
    """Raise UsageError if options for input lines and for generated records are combined."""
    if records is None and record_size is not None:
        raise UsageError(
            "--record-size requires --records",
            hint="--records N --record-size BYTES; omit both to send the lines of standard input",
        )
    if records is not None and key_separator is not None:
        raise UsageError(
            "give either --records or --key-separator, but not both: "
            "generated records have no keys",
            hint="omit --records to send the lines of standard input",
        )
    if key_separator == "":
        raise UsageError("--key-separator is empty", hint="e.g. --key-separator :")
    if records is not None and _waiting_input_bytes():
        raise UsageError(
            "--records is given, but standard input has data",
            hint="omit --records to send the lines of standard input, or add < /dev/null",
        )


def _run(sending: _Sending, batches: Iterator[_Batch], json: bool) -> ProducerStatus:
    """Send all batches and print the outcome, even if sending fails or is interrupted."""
    begun_s = time.monotonic()
    try:
        status, is_interrupted = sending.run(batches)
    except KeyboardInterrupt:
        _show(sending.known(), time.monotonic() - begun_s, json)
        raise Interrupted("Interrupted") from None
    except KlammError as error:
        status = sending.known()
        if status.sent or isinstance(error, ServerUnavailable):
            _show(status, time.monotonic() - begun_s, json)
            error.definite = False
        raise
    _show(status, time.monotonic() - begun_s, json)
    if is_interrupted:
        raise Interrupted("Interrupted")
    return status


class _Sending:
    """A producer session in the server, and the status that the server last returned.

    ``wanted`` is the body of the request that creates the session.
    """

    def __init__(self, client: ServerClient, wanted: Mapping[str, object]) -> None:
        self._client = client
        self._path = f"/producers/{client.post('/producers', wanted)['id']}"
        self._progress = ClientProgress()
        self._status = _NOTHING_SENT
        self._asked_count = 0

    def run(self, batches: Iterator[_Batch]) -> tuple[ProducerStatus, bool]:
        """Send all batches and wait until the outcome of every record is known.

        Returns the last status, and whether Ctrl-C interrupted the sending. Raises
        ServerUnavailable if the server ends, and KeyboardInterrupt for a second Ctrl-C before the
        server has responded. After such an exception, ``known`` returns the outcome.
        """
        try:
            for count, body in batches:
                self._asked_count += count
                self._post("records", {**body, "max_undecided": _MAX_UNDECIDED})
                while self._status.undecided > _MAX_UNDECIDED:
                    self._post("records", {"wait_ms": 1_000})
            while self._post("close", {"wait_ms": 1_000}).undecided:
                pass
            return self._status, False
        except KeyboardInterrupt:
            return self._give_up(), True
        except ServerUnavailable:
            raise
        except BaseException:
            # Batches that were refused were not sent.
            self._asked_count = self._give_up().sent
            raise
        finally:
            STATUS_LINE.erase()

    def known(self) -> ProducerStatus:
        """Return the last status; records whose outcome is unknown count as in doubt."""
        decided = self._status.acknowledged + self._status.failed
        return msgspec.structs.replace(
            self._status,
            sent=self._asked_count,
            in_doubt=self._asked_count - decided,
            undecided=0,
            waiting_for=[],
        )

    def _give_up(self) -> ProducerStatus:
        return self._post("close", {"wait_ms": 0, "gives_up": True})

    def _post(self, action: str, body: Mapping[str, object]) -> ProducerStatus:
        self._status = self._client.ask(ProducerStatus, f"{self._path}/{action}", body)
        counts = f"{self._status.sent} sent, {self._status.acknowledged} acknowledged"
        self._progress.show(self._status.waiting_for, counts)
        return self._status


class _Pace:
    """Rate limiter that allows a number of records per second, averaged since its creation.

    ``rate_per_s``: the limit, or None for no limit.
    """

    def __init__(self, rate_per_s: float | None) -> None:
        self._rate_per_s = rate_per_s
        self._begun_s = time.monotonic()
        self._count = 0

    def acquire(self, limit: int) -> int:
        """Wait until a record may be sent; return how many may be sent now, at most ``limit``."""
        count = min(limit, _CHUNK_RECORDS)
        if self._rate_per_s is not None:
            while (due := int((self._passed_s() + _TICK_S) * self._rate_per_s)) <= self._count:
                due_s = (self._count + 1) / self._rate_per_s
                time.sleep(max(_TICK_S, due_s - self._passed_s()))
            count = min(count, due - self._count)
        self._count += count
        return count

    def _passed_s(self) -> float:
        return time.monotonic() - self._begun_s


def _generated(records: int, size_bytes: int, rate_per_s: float | None) -> Iterator[_Batch]:
    """Yield batches of generated records, limited to a rate if one is given."""
    pace = _Pace(rate_per_s)
    while records:
        count = pace.acquire(records)
        records -= count
        yield _Batch(count, {"record_count": count, "record_size_bytes": size_bytes})


def _lines(key_separator: str | None, rate_per_s: float | None) -> Iterator[_Batch]:
    """Yield batches of the lines available on standard input, limited to a rate if one is given."""
    pace = _Pace(rate_per_s)
    number, left = 0, b""
    while chunk := os.read(_STDIN, _CHUNK_BYTES):
        *lines, left = (left + chunk).split(b"\n")
        while lines:
            count = pace.acquire(len(lines))
            yield _records(lines[:count], number, key_separator)
            number, lines = number + count, lines[count:]
    if left:
        pace.acquire(1)
        yield _records([left], number, key_separator)


def _waiting_input_bytes() -> int:
    """Return the number of bytes available on standard input.

    The result is 0 for a terminal, for /dev/null, and if standard input is closed.
    """
    if os.isatty(_STDIN):
        return 0
    size_bytes = array("i", [0])
    try:
        ioctl(_STDIN, FIONREAD, size_bytes)
    except OSError:
        return 0
    return size_bytes[0]


def _records(lines: list[bytes], before: int, key_separator: str | None) -> _Batch:
    records = [_record(line, before + n, key_separator) for n, line in enumerate(lines, 1)]
    return _Batch(len(records), {"records": records})


def _record(encoded: bytes, number: int, key_separator: str | None) -> dict[str, str]:
    """Parse one line into a record. Raises UsageError with Kafka's message for a missing key."""
    try:
        line = encoded.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"line number {number} is not UTF-8",
            hint="Kafka's own clients send any bytes: klamm up --listen",
        ) from None
    if len(line) > MAX_RECORD_BYTES:
        raise UsageError(
            f"line number {number} has {len(line)} characters; the limit is {MAX_RECORD_BYTES}"
        )
    if key_separator is None:
        return {"value": line}
    key, found, value = line.partition(key_separator)
    if not found:
        raise UsageError(
            f"No key found on line number {number}: {line}",
            hint=f"lines are KEY{key_separator}VALUE",
        )
    return {"key": key, "value": value}


def _show(status: ProducerStatus, took_s: float, json: bool) -> None:
    rate = status.acknowledged / took_s if took_s else 0.0
    values = {
        **msgspec.structs.asdict(status),
        "took_ms": round(took_s * 1000),
        "records_per_s": round(rate, 1),
    }
    doubt = f", {status.in_doubt} in doubt" if status.in_doubt else ""
    head = (
        f"{status.acknowledged} record{plural(status.acknowledged)} acknowledged, "
        f"{status.failed} failed{doubt}; "
        f"{rate_text(rate)} records/s"
    )
    lines = (head, *offsets_lines(status.offsets), *not_acknowledged_lines(status))
    print_result(json, values, lines)
