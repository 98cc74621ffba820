"""kafka-reassign-partitions with pools, by both ways: where it places, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.errors import UsageError
from klamm.placement.pools import Pool, Pools, TopicRule
from klamm.tools.command_result import CommandResult
from klamm.tools.reassignments.command import run_reassign_command
from klamm.tools.reassignments.common import OwnOptions
from tests.unit.tools.reassign_world import World

POOLS = Pools(
    {"left": Pool("left", (0, 1, 2)), "right": Pool("right", (3, 4, 5))},
    (TopicRule("a", "left"), TopicRule("b", "right")),
)
TOPICS = {"a": {"0": [0, 1], "1": [1, 2]}, "b": {"0": [2, 3]}, "c": {"0": [0, 5]}}
WAYS = [("--bootstrap-server", "s:1"), ("--zookeeper", "z:1")]


@pytest.fixture(params=WAYS, ids=["server", "zookeeper"])
def where(request: pytest.FixtureRequest) -> tuple[str, str]:
    """How the tool is told of the cluster."""
    way: tuple[str, str] = request.param
    return way


def run(where: tuple[str, str], action: str, *more: str, seed: int) -> CommandResult:
    """The tool on six brokers."""
    services = World(6, TOPICS).services(seed)
    return run_reassign_command([*where, f"--{action}", *more], services, OwnOptions(pools=POOLS))


def execute(where: tuple[str, str], folder: Path, *partitions: dict[str, Any]) -> CommandResult:
    (folder / "plan").write_text(json.dumps({"partitions": partitions}))
    file = ("--reassignment-json-file", str(folder / "plan"))
    return run(where, "execute", *file, seed=1)


def move(topic: str, *replicas: int) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "replicas": replicas}


@pytest.mark.parametrize("seed", range(4))
def test_each_topic_is_placed_inside_its_pool(
    where: tuple[str, str], tmp_path: Path, seed: int
) -> None:
    (tmp_path / "topics").write_text(json.dumps({"topics": [{"topic": t} for t in TOPICS]}))
    arguments = ["--topics-to-move-json-file", str(tmp_path / "topics")]
    arguments += ["--broker-list", "1,2,3,4,5"]
    result = run(where, "generate", *arguments, seed=seed)
    assert result.exit_code == 0
    proposed = json.loads(bytes(result.report["proposed"]))["partitions"]
    placed: dict[str, set[int]] = {}
    for partition in proposed:
        placed.setdefault(partition["topic"], set()).update(partition["replicas"])
    assert placed["a"] == {1, 2}
    assert placed["b"] <= {3, 4, 5}
    assert placed["c"] <= {1, 2, 3, 4, 5}


def test_a_plan_that_leaves_a_pool_is_refused_whole(where: tuple[str, str], tmp_path: Path) -> None:
    refused = execute(where, tmp_path, move("a", 0, 2), move("b", 3, 1), move("c", 0, 1))
    assert refused.exit_code == 1
    text = "Partition b-0 would leave pool right (brokers 3,4,5): broker 1 is not in it."
    assert f"Error: {text}\n" in refused.stdout
    assert "Successfully started" not in refused.stdout
    assert refused.report["error"]["code"] == "INVALID_REPLICA_ASSIGNMENT"


def test_a_replica_that_is_outside_already_may_stay(where: tuple[str, str], tmp_path: Path) -> None:
    assert execute(where, tmp_path, move("b", 3, 2), move("a", 2, 1)).exit_code == 0
    assert execute(where, tmp_path, move("b", 4, 2)).exit_code == 0
    assert execute(where, tmp_path, move("b", 3, 0)).exit_code == 1


@pytest.mark.parametrize("action", ["verify", "cancel", "list"])
def test_pools_go_with_generate_and_execute(tmp_path: Path, action: str) -> None:
    (tmp_path / "plan").write_text('{"partitions":[]}')
    file = () if action == "list" else ("--reassignment-json-file", str(tmp_path / "plan"))
    with pytest.raises(UsageError, match="--pools requires --generate or --execute"):
        run(WAYS[0], action, *file, seed=1)
