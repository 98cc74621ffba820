"""Requests of clients that fail on command: the fault door, for Kafka's clients and for drills."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from klamm.cli.main import main
from klamm.cluster.errors import KlammError
from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.actions.network_actions import FailRequests, HealNetwork
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, play
from klamm.server.cluster_server import ClusterServer
from tests.listeners import BROKERS, ask, bootstrap, config_of, create, free_ports, place

METADATA_V1 = struct.pack(">hhih1si", 3, 1, 9, 1, b"x", -1)
"""Of the client x."""
OF_ANOTHER = METADATA_V1.replace(b"x", b"y")


@pytest.fixture
def server(chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    with ClusterServer(config_of(chroot, tmp_path, str(free_ports(BROKERS)))) as opened:
        create(opened, (0, 1, 2))
        yield opened


def faults(server: ClusterServer) -> list[str]:
    return server.cluster.transport.fault_texts


def test_the_next_three_produce_requests_of_a_client_fail(server: ClusterServer) -> None:
    fail = FailRequests(api="Produce", client="x", error="NOT_LEADER_OR_FOLLOWER", times=3)
    server.operations.perform(fail)
    told = "the next 3 Produce requests of client x fail with NOT_LEADER_OR_FOLLOWER"
    assert faults(server) == [told]
    acknowledged: list[bytes] = []
    for client_id in ("y", "x"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": ",".join(bootstrap(server)), "client.id": client_id}
        )
        producer.produce(
            "t", client_id, on_delivery=lambda error, one: acknowledged.append(error or one.value())
        )
        assert producer.flush(30) == 0
        assert len(faults(server)) == (client_id == "y")
    assert acknowledged == [b"y", b"x"]


def test_requests_are_refused_lost_or_late(server: ClusterServer) -> None:
    perform = server.operations.perform
    perform(FailRequests(api="Metadata", client="x", broker=1, cut=True, times=1))
    told = "the next Metadata request of client x to broker 1 breaks its connection"
    assert faults(server) == [told]
    assert ask(server, 0, METADATA_V1) != b""
    assert ask(server, 1, METADATA_V1) == b""
    assert faults(server) == []
    perform(FailRequests(api="Metadata", client="x", drop=True))
    with socket.create_connection(place(server, 0), 0.5) as client:
        client.sendall(struct.pack(">i", len(METADATA_V1)) + METADATA_V1)
        with contextlib.suppress(TimeoutError):
            raise AssertionError(f"answered with {client.recv(4)!r}")
    assert ask(server, 0, OF_ANOTHER) != b""
    perform(HealNetwork())
    perform(FailRequests(client="x", delay_ms=300))
    began_s = time.monotonic()
    assert ask(server, 0, METADATA_V1) != b""
    assert time.monotonic() - began_s >= 0.3
    perform(HealNetwork())
    perform(FailRequests(error="REQUEST_TIMED_OUT"))
    named = struct.pack(">hhihih1s", 3, 1, 9, -1, 1, 1, b"t")
    assert struct.pack(">ih", 1, 7) in ask(server, 0, named)


API_VERSIONS_V0 = struct.pack(">hhih1s", 18, 0, 9, 1, b"x")
CONFIGS_V0 = struct.pack(">hhih1sibh1si", 32, 0, 9, 1, b"x", 1, 2, 1, b"t", -1)
"""Of topic t."""
CLUSTER_V0 = struct.pack(">hhih1sbbb", 60, 0, 9, 1, b"x", 0, 0, 0)
OFFSET_DELETE_V0 = struct.pack(">hhih1sh1si", 47, 0, 9, 1, b"x", 1, b"g", 0)
LOG_DIRS_V0 = struct.pack(">hhih1si", 35, 0, 9, 1, b"x", -1)


def test_requests_that_the_listener_answers_itself_have_faults(server: ClusterServer) -> None:
    perform = server.operations.perform
    config = b"min.insync.replicas"
    assert config in ask(server, 0, CONFIGS_V0)
    perform(FailRequests(api="DescribeConfigs", error="INVALID_REQUEST", times=1))
    refused = ask(server, 0, CONFIGS_V0)
    assert struct.pack(">ih", 1, 42) in refused and config not in refused
    assert config in ask(server, 0, CONFIGS_V0)
    perform(FailRequests(api="ApiVersions", broker=1, cut=True, times=1))
    assert ask(server, 0, API_VERSIONS_V0) != b""
    assert ask(server, 1, API_VERSIONS_V0) == b""
    perform(FailRequests(api="ApiVersions", delay_ms=300, times=1))
    began_s = time.monotonic()
    assert ask(server, 1, API_VERSIONS_V0) != b""
    assert time.monotonic() - began_s >= 0.3
    perform(FailRequests(api="OffsetDelete", error="GROUP_AUTHORIZATION_FAILED", times=1))
    # The error follows the correlation id.
    errors = [struct.unpack_from(">h", ask(server, 0, OFFSET_DELETE_V0), 4) for _ in range(2)]
    assert errors == [(30,), (16,)]
    perform(FailRequests(api="DescribeLogDirs", error="INVALID_REQUEST", times=1))
    assert struct.pack(">ih", 1, 42) in ask(server, 0, LOG_DIRS_V0)
    assert struct.pack(">ih", 1, 0) in ask(server, 0, LOG_DIRS_V0)
    perform(FailRequests(api="DescribeCluster", error="REQUEST_TIMED_OUT", times=1))
    # The error follows the correlation id, the tags of the header, and the throttle time.
    errors = [struct.unpack_from(">h", ask(server, 0, CLUSTER_V0), 9) for _ in range(2)]
    assert errors == [(7,), (0,)]
    assert faults(server) == []
    perform(FailRequests(api="ApiVersions", drop=True))
    with socket.create_connection(place(server, 0), 0.5) as client:
        client.sendall(struct.pack(">i", len(API_VERSIONS_V0)) + API_VERSIONS_V0)
        with contextlib.suppress(TimeoutError):
            raise AssertionError(f"answered with {client.recv(4)!r}")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"times": 1}, "give one of 'error', 'drop', 'cut' and 'delay_ms'"),
        (
            {"drop": True, "error": "NOT_CONTROLLER"},
            "give one of 'error', 'drop', 'cut' and 'delay_ms'",
        ),
        ({"error": "NOBODY_HOME"}, "NOBODY_HOME is not an error of Kafka 2.8.2; see the list of "),
        ({"error": "NONE"}, "NONE is not an error of Kafka 2.8.2"),
        (
            {"error": "not_leader_or_follower"},
            r"2\.8\.2; did you mean NOT_LEADER_OR_FOLLOWER\?",
        ),
        ({"cut": True, "api": "produce"}, r"not an API of clients; did you mean Produce\?"),
        ({"cut": True, "api": "LeaderAndIsr"}, "not an API of clients; see the list of APIs in"),
    ],
)
def test_faults_that_make_no_sense_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FailRequests(**given)  # type: ignore[arg-type]
    text = ", ".join(f"{name}: {str(one).replace('True', 'true')}" for name, one in given.items())
    drill = (
        f"drill: d\nabout: x\ncluster: {{topics: {{t: [[0]]}}}}\nsteps: [fail_requests: {{{text}}}]"
    )
    with pytest.raises(KlammError, match=message):
        parse_drill(drill, "d.yaml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--api Produce", "give one of --error, --drop, --cut and --delay-ms\n"),
        ("--drop --cut", "give one of --error, --drop, --cut and --delay-ms\n"),
        ("--api produce --drop", "produce is not an API of clients; did you mean Produce?\n"),
    ],
)
def test_the_command_says_which_options_it_takes(
    options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["network", "fail-requests", "--server", "localhost:1", *options.split()]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}hint: ")


@pytest.mark.parametrize(
    "fault",
    [
        "error: NOT_LEADER_OR_FOLLOWER, api: Produce, broker: leader of t-0",
        "drop: true, api: Fetch",
        "cut: true",
        "delay_ms: 700",
        "error: COORDINATOR_NOT_AVAILABLE",
        "error: THROTTLING_QUOTA_EXCEEDED",
    ],
)
def test_a_drills_clients_survive_failed_requests(fault: str) -> None:
    text = f"""
drill: requests-fail
about: three requests fail
cluster: {{brokers: 3, topics: {{t: [[1, 2, 0]]}}}}
steps:
  - produce: {{t-0: 10}}
  - wait: 1s
  - fail_requests: {{{fault}, times: 3}}
  - produce: {{t-0: 10}}
  - wait: 90s
"""
    drill = parse_drill(text, "d.yaml")
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    *_, verdict = play(drill, driver)
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())
    assert driver.cluster.transport.fault_texts == []
