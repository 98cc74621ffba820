"""Both election tools: the recorded run, and what they say of a cluster's answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import BrokerNotAvailable, RequestTimedOut
from klamm.cluster.requests import ApiError
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.tools.command_result import CommandResult
from klamm.tools.elections.command import run_election_command
from klamm.tools.elections.preferred_command import run_preferred_election_command
from tests.unit.tools.election_world import Answers
from tests.unit.tools.reassign_world import World
from tests.unit.tools.vectors import Case, cases, memory_server, put, services

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
def test_the_older_tool_runs_as_recorded_from_kafka(case: Case, tmp_path: Path) -> None:
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


def test_every_result_of_an_election_is_reported() -> None:
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
    assert result.report["elected"] == [{"topic": "a", "partition": n} for n in (0, 1)]
    assert result.report["not_needed"] == [{"topic": "b", "partition": 0}]
    assert [(one["partition"], one["code"]) for one in result.report["failed"]] == [
        (0, "PREFERRED_LEADER_NOT_AVAILABLE"),
        (1, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
    ]
    assert result.report["error"]["definite"] is False, "some were elected"
    failed = {tp: one for tp, one in MIXED.items() if tp.topic != "a"}
    assert elect(ELECT, Answers(failed)).report["error"]["definite"] is True
    assert answers.asked == [(ElectionType.PREFERRED, None)]


def test_the_hint_names_what_kafkas_text_leaves_out() -> None:
    answer = {TopicPartition("b", 0): MIXED[TopicPartition("b", 0)]}
    answers = Answers(answer)
    result = elect([*ELECT[:3], "Unclean", "--topic", "b", "--partition", "0"], answers)
    assert result.stdout == "Valid replica already elected for partitions \n"
    assert (result.exit_code, result.hint) == (0, "no election was needed for b-0")
    assert answers.asked == [(ElectionType.UNCLEAN, [TopicPartition("b", 0)])]


def test_the_older_tool_reports_results_of_the_cluster() -> None:
    world = World()
    services = world.services(cluster=Answers(MIXED))
    result = run_preferred_election_command(["--bootstrap-server", "s:1"], services)
    assert result.stdout.splitlines()[1:3] == [
        "Successfully completed preferred leader election for partitions a-1, a-0",
        "Preferred replica already elected for partitions a-1, a-0",
    ]
    assert result.stderr.endswith("2 preferred replica(s) could not be elected\n")


def test_a_timeout_is_reported_as_kafka_reports_it() -> None:
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


ONE_OF = "One and only one of the following options is required: topic, all-topic-partitions, "


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--election-type preferred", "Missing required option(s): bootstrap-server"),
        ("--all-topic-partitions", "Missing required option(s): election-type, bootstrap-server"),
        ("{server} --election-type preferred", ONE_OF),
        ("{server} --election-type unclean --topic t --all-topic-partitions", ONE_OF),
        ("{server} --election-type unclean --topic t", "Missing required option(s): partition"),
        (
            "{server} --election-type unclean --all-topic-partitions --partition 0",
            "Option partition is only allowed if topic is used",
        ),
        (
            "{server} --election-type other --all-topic-partitions",
            "Cannot parse argument 'other' of option election-type",
        ),
        (
            "{server} --election-type preferred --election-type other --all-topic-partitions",
            "Cannot parse argument 'other' of option election-type",
        ),
        (
            "{server} --election-type preferred --topic t --partition 0 --partition 1",
            "joptsimple.MultipleArgumentsForOptionException: Found multiple arguments for option",
        ),
        (
            "{server} --election-type preferred --topic t --partition 2147483648",
            "Cannot parse argument '2147483648' of option partition",
        ),
    ],
)
def test_contradictory_options_are_refused(line: str, said: str) -> None:
    answers = Answers({})
    result = elect(line.format(server="--bootstrap-server s:1").split(), answers)
    assert said in result.stderr
    assert (result.exit_code, answers.asked) == (1, [])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--bootstrap-server s:1 --zookeeper z:1", "Exactly one of '[bootstrap-server]' or '[zook"),
        ("--path-to-json-file f", "Exactly one of '[bootstrap-server]' or '[zookeeper]' must be"),
        ("--zookeeper z:1 --admin.config f", "Option(s) [admin.config] are unavailable given"),
        ("--zookeeper z:1 --admin.config f --help", "it can be used to balance leadership"),
    ],
)
def test_contradictory_options_of_the_older_tool_are_refused(line: str, said: str) -> None:
    answers = Answers({})
    services = World().services(cluster=answers)
    result = run_preferred_election_command(line.split(), services)
    assert said in result.stderr
    assert (result.exit_code, answers.asked) == (1, [])


def test_the_version_of_the_older_tool_is_shown_whatever_else_is_given() -> None:
    line = "--zookeeper z:1 --admin.config f --version"
    result = run_preferred_election_command(line.split(), World().services())
    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.endswith("2.8.2 (Commit:3146c6ff4a24cc24)\n")


T0, T1 = ({"topic": "t", "partition": number} for number in range(2))


@pytest.mark.parametrize("tool", ["new", "old"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"partitions": [T0, T1, T0]}, "election data contains duplicate partitions: t-0"),
        ({"partitions": [{"topic": "t"}]}, "No such field exists: `partition`"),
        ({}, {"new": 'is missing "partitions" field', "old": "election data is empty"}),
        ("x", "election data is empty"),
    ],
)
def test_an_invalid_file_of_partitions_is_refused(
    tmp_path: Path, tool: str, content: object, said: str | dict[str, str]
) -> None:
    file, answers = tmp_path / "f", Answers({})
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    result = elect_in(file, tool, answers)
    assert (said if isinstance(said, str) else said[tool]) in result.stderr
    assert (result.exit_code, answers.asked) == (1, [])


@pytest.mark.parametrize("tool", ["new", "old"])
def test_the_partitions_of_a_file_are_elected(tmp_path: Path, tool: str) -> None:
    file, answers = tmp_path / "f", Answers({})
    file.write_text(json.dumps({"partitions": [T1, T0]}))
    assert elect_in(file, tool, answers).exit_code == 0
    asked = [TopicPartition("t", 1), TopicPartition("t", 0)]
    assert answers.asked == [(ElectionType.PREFERRED, asked)]
    absent = elect_in(tmp_path / "absent", tool, answers)
    assert f"Unable to read file {tmp_path / 'absent'}" in absent.stderr


def elect_in(file: Path, tool: str, answers: Answers) -> CommandResult:
    """Elect the partitions of a file, with the newer or the older tool."""
    args = ["--bootstrap-server", "s:1", "--path-to-json-file", str(file)]
    if tool == "new":
        return elect([*args, "--election-type", "PREFERRED"], answers)
    return run_preferred_election_command(args, World().services(cluster=answers))


def test_an_election_that_is_in_progress_is_not_overwritten() -> None:
    world = World(2, {"t": {"0": [0, 1]}})
    waiting = [TopicPartition("t", 0)]
    assert world.client.create_preferred_replica_election(waiting)
    services = world.services(cluster=Answers({}))
    result = run_preferred_election_command(["--zookeeper", "z:1"], services)
    assert "Preferred replica leader election currently in progress for t-0" in result.stderr
    assert result.exit_code == 1
    assert world.client.get_preferred_replica_election() == waiting


def test_all_partitions_are_in_the_order_of_zookeepers_children() -> None:
    world = World(2, {topic: {"0": [0, 1]} for topic in ("a_b", "dead", "t")})
    for topic in ("a_b", "dead", "t"):
        assert world.client.create_recursive(f"/brokers/topics/{topic}/partitions/0")
    services = world.services(cluster=Answers({}))
    result = run_preferred_election_command(["--zookeeper", "z:1"], services)
    assert "Created preferred replica election path with dead-0,t-0,a_b-0\n" in result.stdout


@pytest.mark.parametrize(
    ("there", "absent", "name"),
    [(1, 0, "Set"), (3, 1, "Set"), (4, 1, "HashSet"), (5, 0, "HashSet")],
)
def test_partitions_that_do_not_exist_are_skipped(
    tmp_path: Path, there: int, absent: int, name: str
) -> None:
    """Scala's sets of up to four elements are another class than larger ones."""
    world = World(2, {"t": {str(number): [0, 1] for number in range(there)}})
    wanted = [{"topic": "t", "partition": number} for number in reversed(range(there + absent))]
    (tmp_path / "f").write_text(json.dumps({"partitions": wanted}))
    args = ["--zookeeper", "z:1", "--path-to-json-file", str(tmp_path / "f")]
    result = run_preferred_election_command(args, world.services(cluster=Answers({})))
    lines = result.stdout.splitlines()
    assert f" for partitions {name}(t-" in lines[-1 - absent]
    skipped = (
        "Skipping preferred replica leader election for partition t-{} since it doesn't exist."
    )
    assert lines[len(lines) - absent :] == [skipped.format(there)][:absent]
    started = world.client.get_preferred_replica_election()
    assert sorted(started) == [TopicPartition("t", number) for number in range(there)]
    assert result.report["started"] == wanted[absent:][::-1]
    assert result.report["skipped"] == wanted[:absent]
