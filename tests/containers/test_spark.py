"""docker-compose.yml's profile spark: a journal of the service klamm, replayed by two workers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.containers.compose import Project

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """klamm with a topic, and a Spark cluster of a master and two workers."""
    with Project("klamm") as project:
        create = ("klamm", "topics", "--bootstrap-server", "127.0.0.1:8282", "--create")
        topic = ("--topic", "t", "--partitions", "6", "--replication-factor", "3")
        project.exec_in_container([*create, *topic], "klamm")
        # Their memory is for Spark; the journal stays in the volume.
        project.container("klamm").stop()
        project.container("zookeeper").stop()
        project.services = ["spark-master", "spark-worker"]
        project.start()
        yield project


def test_two_workers_replay_the_journal(project: Project) -> None:
    project.services, project.wait = ["replay"], False
    project.start()
    code = project.container("replay").wait(timeout=500)["StatusCode"]
    printed, _ = project.get_logs("replay")
    assert code == 0, printed[-3000:]
    assert "6 partitions" in printed
    launched = project.get_logs("spark-worker")[0].splitlines()
    workers = {line.split()[0] for line in launched if "Asked to launch executor" in line}
    assert len(workers) == 2
    answers = ["cat", "/var/lib/replay/answers/answers.json"]
    counts = json.loads(project.exec_in_container(answers, "spark-worker")[0])["counts"]
    assert counts["illegal"] == 0
