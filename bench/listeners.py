"""``python -m bench.listeners``: how many records Kafka's clients send and read through listeners.

`klamm up` runs as a separate process, with three brokers, segment files and a topic of replication
factor 3. librdkafka produces records of 1 KiB with acks=all for a fixed time, then reads them
all. While the cluster is idle, Metadata requests are timed one by one. Exit 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.machine import machine
from bench.steady_client import TOPIC
from tests.listeners import BROKERS, free_ports
from tests.serving import klamm_up

PRODUCED_GOAL: Final = 20_000.0
CONSUMED_GOAL: Final = 50_000.0
P99_GOAL_MS: Final = 5.0
_METADATA: Final = struct.pack(">hhihi", 3, 1, 1, -1, -1)
"""Metadata v1 for all topics."""


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create_topic(servers: str, partitions: int) -> None:
    """Create the topic and wait until its leaders are known."""
    admin = AdminClient({"bootstrap.servers": servers})
    topic = NewTopic(TOPIC, num_partitions=partitions, replication_factor=BROKERS)
    admin.create_topics([topic])[TOPIC].result(30)


def produce(servers: str, seconds: float, record_bytes: int) -> dict[str, Any]:
    """Produce for ``seconds``, wait for all acknowledgements, and return the figures."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 50_000,
        }
    )
    value = bytes(record_bytes)
    acknowledged = failed = 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged, failed
        acknowledged, failed = acknowledged + (error is None), failed + (error is not None)

    began_s = time.monotonic()
    while time.monotonic() < began_s + seconds:
        for _ in range(100):
            try:
                producer.produce(TOPIC, value, on_delivery=delivered)
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush(60)
    took_s = time.monotonic() - began_s
    return {"acknowledged": acknowledged, "failed": failed, "per_s": acknowledged / took_s}


def consume(servers: str, count: int) -> dict[str, Any]:
    """Read at least ``count`` records from the beginning, and return the figures."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    partitions = consumer.list_topics(TOPIC, 10).topics[TOPIC].partitions
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, one, 0) for one in partitions])
    read, began_s = 0, time.monotonic()
    while read < count and time.monotonic() < began_s + 60:
        read += sum(one.error() is None for one in consumer.consume(10_000, 0.2))
    took_s = time.monotonic() - began_s
    consumer.close()
    return {"read": read, "per_s": read / took_s}


def metadata_ms(port: int, count: int) -> list[float]:
    """Return the sorted times of Metadata requests, which are sent one by one."""
    frame = struct.pack(">i", len(_METADATA)) + _METADATA
    times = []
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        stream = client.makefile("rb")
        for _ in range(count):
            began_s = time.perf_counter()
            client.sendall(frame)
            stream.read(struct.unpack(">i", stream.read(4))[0])
            times.append((time.perf_counter() - began_s) * 1000)
    return sorted(times)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the cluster, and return all figures."""
    port = free_ports(BROKERS)
    arguments = [
        *("--brokers", str(BROKERS), "--listen", str(port)),
        *(() if options.in_memory else ("--segments",)),
        *("--config", "auto.leader.rebalance.enable=false"),
    ]
    with klamm_up(folder, *arguments) as up:
        servers = ",".join(f"127.0.0.1:{port + id_}" for id_ in range(BROKERS))
        create_topic(servers, options.partitions)
        produce(servers, 1.0, options.record_bytes)
        before_s = cpu_seconds(up.process.pid)
        produced = produce(servers, options.seconds, options.record_bytes)
        between_s = cpu_seconds(up.process.pid)
        consumed = consume(servers, produced["acknowledged"])
        after_s = cpu_seconds(up.process.pid)
        times = metadata_ms(port, 1000)
    produced["klamm_cpu_us_per_record"] = 1e6 * (between_s - before_s) / produced["acknowledged"]
    consumed["klamm_cpu_us_per_record"] = 1e6 * (after_s - between_s) / max(1, consumed["read"])
    return {
        "produced": produced,
        "consumed": consumed,
        "metadata_p50_ms": times[len(times) // 2],
        "metadata_p99_ms": times[len(times) * 99 // 100],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.listeners", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to produce")
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--in-memory", action="store_true", help="klamm up without --segments")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="klamm-listeners-") as folder:
        figures = measure(options, Path(folder))
    print(json.dumps(figures, indent=2))
    is_met = (
        figures["produced"]["per_s"] >= PRODUCED_GOAL
        and figures["consumed"]["per_s"] >= CONSUMED_GOAL
        and figures["metadata_p99_ms"] <= P99_GOAL_MS
        and figures["produced"]["failed"] == 0
        and figures["consumed"]["read"] >= figures["produced"]["acknowledged"]
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
