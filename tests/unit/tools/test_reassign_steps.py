"""Every recorded run of kafka-reassign-partitions on a real cluster: same texts and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.tools.reassignments.command import run_reassign_command
from klamm.zk.store import Create, ReadOp, SetData, Transaction, TxnResult
from tests.unit.tools.reassign_world import World
from tests.unit.tools.vectors import Case, cases, masked, put

STEPS = [
    step
    for step in cases("reassign_command_steps.jsonl")
    if step.values[0]["tool"] == "ReassignPartitionsCommand"
]


@pytest.mark.parametrize("case", STEPS)
def test_the_tool_runs_as_recorded_from_kafka(case: Case, tmp_path: Path) -> None:
    world = World()
    for path in sorted(case["before"]):
        put(world.client, path, case["before"][path])
    args = list(case["args"])
    for name, content in case["files"].items():
        (tmp_path / name).write_text(json.dumps(content))
        args[args.index(f"{{file:{name}}}")] = str(tmp_path / name)
    writes: list[list[object]] = []

    def record(_: int, done: ReadOp | Transaction, result: object) -> None:
        if isinstance(result, TxnResult) and result.code.value == 0:
            assert isinstance(done, list)
            for op in done:
                assert isinstance(op, Create | SetData)
                kind = "create" if isinstance(op, Create) else "setData"
                writes.append([kind, op.path, json.loads(op.data or b"null")])

    if "--zookeeper" in args:
        world.server.after_op = record
    result = run_reassign_command(args, world.services())
    assert masked(result.stdout).rstrip("\n") == case["stdout"]
    assert (result.stderr, result.exit_code) == (case["stderr"], case["rc"])
    assert writes == case["writes"]
