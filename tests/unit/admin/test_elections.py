"""Both election tools: the recorded run, and what they say of a cluster's answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from klamm.admin.command_result import CommandResult
from klamm.admin.elections.command import run_election_command
from klamm.admin.elections.preferred_command import run_preferred_election_command
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import BrokerNotAvailable, RequestTimedOut
from klamm.cluster.requests import ApiError
from klamm.cluster.types import ElectionType, TopicPartition
from tests.unit.admin.election_world import Answers
from tests.unit.admin.reassign_world import World
from tests.unit.admin.vectors import Case, cases, memory_server, put, services

RECORDED = [
    step
    for step in cases("reassign_command_steps.jsonl")
    if step.values[0]["tool"] == "PreferredReplicaLeaderElectionCommand"
]
MIXED: dict[TopicPartition, ApiError] = {
    TopicPartition("a", 0): ApiError(),
    TopicPartition("a", 1): ApiError(),
    TopicPartition("b", 0): ApiError(Errors.ELECTION_NOT_NEEDED),
    TopicPartition("c", 0): ApiError(Errors.PREFERRED_LEADER_NOT_AVAILABLE, "Failed to elect"),
    TopicPartition("c", 1): ApiError(Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE),
}
ELECT = ("--bootstrap-server", "s:1", "--election-type", "preferred", "--all-topic-partitions")


def elect(args: Sequence[str], answers: Answers) -> CommandResult:
    return run_election_command(args, services(memory_server(), answers))


@pytest.mark.parametrize("case", RECORDED)
def test_recorded_run(case: Case, tmp_path: Path) -> None:
    world = World()
    for path in sorted(case["before"]):
        put(world.client, path, case["before"][path])
    args = list(case["args"])
    for name, content in case["files"].items():
        (tmp_path / name).write_text(json.dumps(content))
        args[args.index(f"{{file:{name}}}")] = str(tmp_path / name)
    result = run_preferred_election_command(args, world.services(cluster=Answers({})))
    assert result.stdout.rstrip("\n") == case["stdout"]
    assert (result.stderr, result.exit_code) == (case["stderr"], case["rc"])
    [(_, path, data)] = case["writes"]
    written = world.client.get_data_and_stat(path)
    assert written is not None
    assert json.loads(written[0] or b"") == data
    assert world.written == 1


def test_every_kind_of_answer() -> None:
    answers = Answers(MIXED)
    result = elect(ELECT, answers)
    assert result.stdout == (
        "Successfully completed leader election (PREFERRED) for partitions a-1, a-0\n"
        "Valid replica already elected for partitions a-1, a-0\n"
        "Error completing leader election (PREFERRED) for partition: c-1: "
        "org.apache.kafka.common.errors.EligibleLeadersNotAvailableException: "
        "Eligible topic partition leaders are not available.\n"
        "Error completing leader election (PREFERRED) for partition: c-0: "
        "org.apache.kafka.common.errors.PreferredLeaderNotAvailableException: Failed to elect\n"
    )
    assert result.stderr == (
        'Exception in thread "main" kafka.common.AdminCommandFailedException: '
        "2 replica(s) could not be elected\n"
    )
    assert (result.exit_code, result.report["exit_code"]) == (1, 1)
    assert result.report["not_needed"] == [{"topic": "b", "partition": 0}]
    assert answers.asked == [(ElectionType.PREFERRED, None)]


def test_the_hint_names_what_kafkas_text_leaves_out() -> None:
    answer = {TopicPartition("b", 0): MIXED[TopicPartition("b", 0)]}
    answers = Answers(answer)
    result = elect(
        [*ELECT[:3], "Unclean", "--topic", "b", "--partition", "0"],
        answers,
    )
    assert result.stdout == "Valid replica already elected for partitions \n"
    assert (result.exit_code, result.hint) == (0, "no election was needed for b-0")
    assert answers.asked == [(ElectionType.UNCLEAN, [TopicPartition("b", 0)])]


def test_preferred_tool_through_the_cluster() -> None:
    world = World()
    services = world.services(cluster=Answers(MIXED))
    result = run_preferred_election_command(["--bootstrap-server", "s:1"], services)
    assert result.stdout.splitlines()[1:3] == [
        "Successfully completed preferred leader election for partitions a-1, a-0",
        "Preferred replica already elected for partitions a-1, a-0",
    ]
    assert result.stderr.endswith("2 preferred replica(s) could not be elected\n")


def test_no_answer_in_time() -> None:
    result = elect(ELECT, Answers(RequestTimedOut("Late.")))
    assert result.stdout == "Timeout waiting for election results\n"
    assert result.stderr == (
        'Exception in thread "main" kafka.common.AdminCommandFailedException: '
        "Timeout waiting for election results\n"
        "Caused by: org.apache.kafka.common.errors.TimeoutException: Late.\n"
    )
    refused = elect(ELECT, Answers(BrokerNotAvailable("gone")))
    assert (refused.stdout, refused.exit_code) == ("", 1)
    gone = "org.apache.kafka.common.errors.BrokerNotAvailableException: gone"
    assert refused.stderr == (
        f'Exception in thread "main" java.util.concurrent.ExecutionException: {gone}\n'
        f"Caused by: {gone}\n"
    )
