"""docker-compose.yml's service klamm: the image that the Dockerfile builds, beside ZooKeeper."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.containers.compose import Project
from tests.listeners import free_ports
from tests.waiting import wait_until

TOKEN_FILE = "/var/lib/klamm/token"

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """ZooKeeper and a klamm with three brokers, both healthy."""
    first = free_ports(3)
    ports = {"KLAMM_LISTEN_PORT": str(first), "KLAMM_LISTEN_PORTS": f"{first}-{first + 2}"}
    with Project("klamm", **ports) as project:
        yield project


def execute(project: Project, *command: str) -> str:
    """Run a command in klamm's container; its output. Raises CalledProcessError."""
    return project.exec_in_container([*command], "klamm")[0]


def token_of(project: Project) -> str:
    return execute(project, "cat", TOKEN_FILE).strip()


def status(project: Project, token: str | None, host: str | None = None) -> tuple[int, bytes]:
    """Code and body of a GET /status from this machine."""
    name, port = project.get_service_host_and_port("klamm", 8282)
    request = urllib.request.Request(f"http://{name}:{port}/status")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    if host is not None:
        request.add_header("Host", host)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_klamm_is_healthy_and_answers_this_machine(project: Project) -> None:
    assert project.get_container("klamm").Health == "healthy"
    code, body = status(project, token_of(project))
    assert code == 200
    answer = json.loads(body)
    assert answer["zookeeper"]["connect"] == "zookeeper:2181/klamm"
    assert [broker["live"] for broker in answer["brokers"]] == [True] * 3


def test_without_the_token_or_by_another_name_nothing_is_answered(project: Project) -> None:
    assert status(project, None)[0] == 401
    assert status(project, "wrong")[0] == 401
    assert status(project, token_of(project), host="evil.example")[0] == 403


def test_klamm_runs_without_privileges(project: Project) -> None:
    assert execute(project, "id", "-u").strip() == "10001"
    with pytest.raises(subprocess.CalledProcessError) as refused:
        execute(project, "touch", "/opt/klamm/new")
    assert b"Permission denied" in refused.value.stderr


def test_the_token_is_in_the_volume_alone(project: Project) -> None:
    token = token_of(project)
    assert len(token) >= 40
    listed = execute(project, "ls", "-l", TOKEN_FILE)
    assert listed.startswith("-rw-------"), listed
    container = project.container("klamm")
    seen = (
        str(container.attrs),
        str(container.image.attrs),
        str(container.image.history()),
        *project.get_logs("klamm"),
        execute(project, "cat", "/proc/1/environ"),
        execute(project, "cat", "/proc/1/cmdline"),
    )
    assert [text for text in seen if token in text] == []


def test_a_restart_keeps_token_topics_and_journal(project: Project) -> None:
    token = token_of(project)
    before = json.loads(status(project, token)[1])
    create = ("klamm", "topics", "--bootstrap-server", "127.0.0.1:8282", "--create")
    topic = ("--topic", "kept", "--partitions", "3", "--replication-factor", "3")
    assert "Created topic kept." in execute(project, *create, *topic)
    project.container("klamm").stop(timeout=30)
    stopped = project.get_container("klamm", include_all=True)
    assert stopped.ExitCode == 0, project.get_logs("klamm")
    project.start()
    assert token_of(project) == token
    after = json.loads(status(project, token)[1])
    assert after["cluster_id"] == before["cluster_id"]
    assert after["run_id"] != before["run_id"]
    wait_until(lambda: json.loads(status(project, token)[1])["controller"]["topics"] == 1)
    journal = execute(project, "cat", "/var/lib/klamm/journal.jsonl")
    assert journal.count('"run_start"') == 2


def test_kafkas_clients_on_this_machine_produce_and_consume(project: Project) -> None:
    port = project.get_service_port("klamm", 9092)
    servers = {"bootstrap.servers": f"localhost:{port}"}
    admin = AdminClient(servers)  # its requests end with it
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(60)
    producer = Producer({**servers, "acks": "all"})
    for number in range(30):
        producer.produce("t", str(number), partition=number % 3)
    assert producer.flush(60) == 0
    consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["t"])
        read: list[int] = []

        def has_read_all() -> bool:
            records = consumer.consume(30, 1)
            read.extend(int(record.value()) for record in records if record.error() is None)
            return len(read) >= 30

        wait_until(has_read_all, 60)
    finally:
        consumer.close()
    assert sorted(read) == list(range(30))


def test_every_profile_of_the_file_is_valid_and_names_no_machine(project: Project) -> None:
    found = project.get_config()
    assert set(found["services"]) == {
        *("zookeeper", "klamm", "zookeeper-1", "zookeeper-2", "zookeeper-3"),
        *("spark-master", "spark-worker", "replay"),
    }
    published = [
        port["host_ip"]
        for service in found["services"].values()
        for port in service.get("ports", ())
    ]
    assert set(published) == {"127.0.0.1"}, "published only on this machine"
