"""The table of docs/http-api.md of what a request may cost, from the constants that bound it."""

from __future__ import annotations

from cluster.partition_limits import DEFAULT_LIMITS
from server import client_bodies, client_sessions, endpoint, handlers, http_protocol, request_bodies


def bound_table() -> str:
    """Every bound: its value, and what a client gets above it."""
    mib = 1 << 20
    limits, clients, bodies = DEFAULT_LIMITS, client_sessions, request_bodies
    rows = (
        (
            "partitions that one request adds (`klamm up --max-partitions-per-request`)",
            f"{limits.per_request:,}",
            "409 POLICY_VIOLATION",
        ),
        (
            "partitions of the cluster (`klamm up --max-partitions`)",
            f"{limits.cluster:,}",
            "409 POLICY_VIOLATION",
        ),
        ("body", f"{bodies.MAX_BODY_BYTES // mib} MiB", "413"),
        ("values in a body of more than 1 MiB", f"{bodies.MAX_BODY_VALUES:,}", "400"),
        (
            f"requests at once with a body of more than {bodies.LARGE_BODY_BYTES // mib} MiB",
            str(bodies.MAX_LARGE_BODIES),
            f"wait, then 503 after {bodies.BODY_TIMEOUT_S / 2:g} s",
        ),
        ("time until a body has arrived", f"{bodies.BODY_TIMEOUT_S:g} s", "408"),
        (
            "time until a request's header has arrived",
            f"{http_protocol.HEADER_TIMEOUT_S:g} s",
            "408",
        ),
        (
            "time without reading an answer",
            f"{http_protocol.WRITE_TIMEOUT_S:g} s",
            "closed",
        ),
        ("bytes of a header", f"{http_protocol.MAX_HEADER_BYTES // 1024} KiB", "400"),
        ("requests and connections at once", str(http_protocol.MAX_REQUESTS), "503"),
        ("connections at once", f"{http_protocol.MAX_CONNECTIONS:,}", "closed at once"),
        (
            "requests at once that wait for a controller or ZooKeeper",
            str(endpoint.OTHER_THREADS),
            "others wait",
        ),
        ("producers and consumers", f"{clients.MAX_CLIENTS:,}", "503"),
        ("a producer or consumer that is not used", f"{clients.IDLE_S:g} s", "it ends"),
        ("`wait_ms` of producers and consumers", f"{clients.MAX_WAIT_MS:,} ms", "answered then"),
        ("records in one request", f"{client_bodies.MAX_RECORDS:,}", "400"),
        ("generated records in one request", f"{client_bodies.MAX_GENERATED_RECORDS:,}", "400"),
        ("their bytes", f"{clients.MAX_GENERATED_BYTES // mib:,} MiB", "400"),
        (
            "a key, a value, a generated record",
            f"{client_bodies.MAX_RECORD_BYTES // mib} MiB",
            "400",
        ),
        ("undecided records of all producers", f"{clients.MAX_UNDECIDED_BYTES // mib} MiB", "503"),
        ("rows of the journal in one answer", f"{handlers.MAX_ROWS:,}", "400"),
    )
    lines = ["| what | bound | above it |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
