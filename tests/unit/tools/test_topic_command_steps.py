"""Every recorded run of kafka-topics on a real cluster: same texts, same exit code, same writes."""

from __future__ import annotations

import json

import pytest

from klamm.tools.topics.command import run_topic_command
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import Create, ReadOp, SetData, Transaction, TxnResult
from tests.unit.tools.vectors import Case, cases, masked, memory_server, put, services


@pytest.mark.parametrize("case", cases("topic_command_steps.jsonl"))
def test_the_tool_runs_as_recorded_from_kafka(case: Case) -> None:
    server = memory_server()
    client = KafkaZkClient(MemoryStore(server))
    for path in sorted(case["before"]):
        put(client, path, case["before"][path])
    client.make_sure_persistent_paths_exist(["/config/changes"])
    writes: list[list[object]] = []

    def record(_: int, done: ReadOp | Transaction, result: object) -> None:
        if not isinstance(result, TxnResult) or result.code.value != 0:
            return
        assert isinstance(done, list)
        for op, made in zip(done, result.results, strict=True):
            assert isinstance(op, Create | SetData)
            kind = "create" if isinstance(op, Create) else "setData"
            data = None if op.data is None else json.loads(masked(op.data.decode()))
            writes.append([kind, masked(made.path or op.path), data])

    server.after_op = record
    result = run_topic_command(["--zookeeper", "z:1", *case["args"]], services(server))
    assert masked(result.stdout).rstrip("\n") == case["stdout"]
    assert result.stderr == case["stderr"]
    assert result.exit_code == case["rc"]
    expected = [[kind, masked(path), data] for kind, path, data in case["writes"]]
    assert writes == json.loads(masked(json.dumps(expected)))
