"""Kafka's DumpLogSegments reads what three simulated brokers wrote through replication: records
that were produced, a failover, and what the old leader had to cut.
"""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import astuple

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.world.kafka.jars import kafka_libs
from tests.sim.replication import IDS, Cluster, replica_views
from tests.sim.test_segment_replication import CONFIG, fail_over

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]
SEGMENT_FILE = re.compile(r"\d{20}\.(log|index|timeindex)")
BATCH = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) .* partitionLeaderEpoch: (\d+) ", re.M)


def batches(folders: list[Path]) -> list[list[tuple[int, int, int]]]:
    """(base offset, last offset, leader epoch) of every batch of each log, as Kafka prints it
    without fault."""
    files = [
        sorted(str(file) for file in folder.iterdir() if SEGMENT_FILE.fullmatch(file.name))
        for folder in folders
    ]
    options = ["--deep-iteration", "--index-sanity-check", "--files"]
    done = run_tool("kafka.tools.DumpLogSegments", [*options, ",".join(chain.from_iterable(files))])
    assert (done.returncode, done.stderr) == (0, "")
    for complaint in ("invalid bytes", "isvalid: false", "isValid: false", "Exception"):
        assert complaint not in done.stdout
    printed = dict.fromkeys(map(str, folders), "")
    for part in done.stdout.split("Dumping ")[1:]:
        printed[str(Path(part.splitlines()[0]).parent)] += part
    return [
        [(int(base), int(last), int(epoch)) for base, last, epoch in BATCH.findall(text)]
        for text in printed.values()
    ]


def test_kafka_reads_what_replicas_hold_after_a_failover(tmp_path: Path) -> None:
    cluster = Cluster(segments=tmp_path, config=CONFIG)
    fail_over(cluster)
    expected = [astuple(interval)[:3] for interval in replica_views(cluster.world)[0].intervals]
    cluster.close()
    found = batches([tmp_path / str(broker_id) / "d0" / "t-0" for broker_id in IDS])
    assert found[1:] == found[:1] * 2
    for epoch, start, end in expected:
        mine = [(base, last) for base, last, of in found[0] if of == epoch]
        assert (mine[0][0], mine[-1][1] + 1) == (start, end)
