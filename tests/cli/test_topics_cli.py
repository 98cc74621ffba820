"""`klamm topics` on a real server: the tool, klamm's two flags, and the question before a write."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from kazoo.client import KazooClient

from klamm.cli.main import main
from tests.serving import without_slowness

CREATE = ["--create", "--topic", "t", "--replica-assignment", "0:1,1:0"]
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def foreign(chroot: str, zookeeper_client: KazooClient) -> str:
    """A chroot of a Kafka cluster that klamm did not set up."""
    root = chroot[chroot.index("/") :]
    zookeeper_client.create(f"{root}/brokers/ids/0", b"{}", makepath=True)
    cluster_id = json.dumps({"version": "1", "id": CLUSTER_ID}).encode()
    zookeeper_client.create(f"{root}/cluster/id", cluster_id, makepath=True)
    return chroot


def topic_is_there(client: KazooClient, chroot: str) -> bool:
    return client.exists(f"{chroot[chroot.index('/') :]}/brokers/topics/t") is not None


def test_create_list_describe_delete(chroot: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["topics", "--zookeeper", chroot]
    assert main([*where, *CREATE]) == 0
    assert main([*where, "--list"]) == 0
    assert main([*where, "--describe"]) == 0
    assert main([*where, "--delete", "--topic", "t"]) == 0
    assert main([*where, "--list"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out == (
        "Created topic t.\n"
        "t\n"
        "Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 0,1\tIsr: \n"
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 1,0\tIsr: \n"
        "Topic t is marked for deletion.\n"
        "Note: This will have no impact if delete.topic.enable is not set to true.\n"
        "t - marked for deletion\n"
    )


UNKNOWN = "UnknownTopicOrPartition"


def test_json_has_the_exit_codes_of_klamm(chroot: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["topics", "--zookeeper", chroot]
    assert main([*where, *CREATE, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["topics"] == [
        {"topic": "t", "created": True, "replicas": {"0": [0, 1], "1": [1, 0]}}
    ]
    assert main([*where, "--json", *CREATE]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.err)["error"]["code"] == "TOPIC_ALREADY_EXISTS"
    assert "error" not in json.loads(printed.out)
    wrong = (["--create"], ["--describe", "--foo"], ["--list", "--create"], [])
    missing = ["--describe", "--topic", "nope"]
    expected = [*((line, 2, "UsageError") for line in wrong), (missing, 1, UNKNOWN)]
    for line, code, kind in expected:
        assert (main([*where, *line]), main([*where, *line, "--json"])) == (1, code)
        printed = capsys.readouterr()
        assert json.loads(printed.out.splitlines()[-1])["exit_code"] == code
        failed = json.loads(printed.err.splitlines()[-1])
        assert (failed["error"]["error"], failed["exit_code"]) == (kind, code)


def test_too_many_partitions_are_refused_before_they_are_placed(
    chroot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["topics", "--zookeeper", chroot, "--topic", "t", "--partitions", "2147483647"]
    assert main([*where, "--create", "--replication-factor", "1"]) == 1
    printed = capsys.readouterr()
    assert "at most 200000 are allowed in one request" in printed.out + printed.err


def test_a_chroot_that_is_not_there_gets_a_hint(
    chroot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", "--zookeeper", f"{chroot}/no/such", *CREATE]) == 1
    printed = capsys.readouterr()
    assert printed.out == "Error while executing topic command : Path length must be > 0\n"
    assert printed.err.startswith("hint: the chroot given with --zookeeper does not exist")


def test_without_standard_input_the_answer_is_no(
    foreign: str, zookeeper_client: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", "--zookeeper", foreign, *CREATE]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert CLUSTER_ID in printed.err
    assert printed.err.endswith("hint: --yes writes without asking\n")
    assert "error: nothing was written: confirmation is required" in printed.err
    assert not topic_is_there(zookeeper_client, foreign)
    assert main(["topics", "--zookeeper", foreign, "--list"]) == 0
    assert main(["topics", "--json", "--zookeeper", foreign, *CREATE]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.err.splitlines()[-1])["error"]["error"] == "NotKlamm"


def test_yes_needs_no_question(
    foreign: str, zookeeper_client: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", "--yes", "--zookeeper", foreign, *CREATE]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("Created topic t.\n", "")
    assert topic_is_there(zookeeper_client, foreign)


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1)])
def test_the_question_on_a_terminal(
    foreign: str, zookeeper_client: KazooClient, answer: bytes, code: int
) -> None:
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, answer)
        done = subprocess.run(
            [sys.executable, "-m", "klamm", "topics", "--zookeeper", foreign, *CREATE],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert CLUSTER_ID in done.stderr
    assert "Write to it?" in done.stderr
    assert done.returncode == code, done.stderr
    assert topic_is_there(zookeeper_client, foreign) is (code == 0)


def test_klamms_own_help_stands_below_the_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--help"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("This tool helps to create, delete, describe, or change a topic.")
    assert "klamm's options:" in printed.err


def test_an_address_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--list", "--zookeeper", "::"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: not a ZooKeeper address")


@pytest.mark.slow
def test_no_zookeeper_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--list", "--zookeeper", "127.0.0.1:1"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    said = without_slowness(printed.err)
    assert said.startswith("error: no ZooKeeper server responds at 127.0.0.1:1 within")


def test_no_klamm_at_the_bootstrap_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: no klamm server responds at http://127.0.0.1:1: ")
