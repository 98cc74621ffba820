"""docker-compose.yml's profile spark: a journal of the service klamm, replayed by two workers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.containers.compose import Project, docker

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """klamm with a topic, and a Spark cluster of a master and two workers."""
    with Project() as project:
        project.up()
        create = ("klamm", "topics", "--bootstrap-server", "127.0.0.1:8282", "--create")
        topic = ("--topic", "t", "--partitions", "6", "--replication-factor", "3")
        project.execute("klamm", *create, *topic)
        # Their memory is for Spark; the journal stays in the volume.
        project("stop", "klamm", "zookeeper")
        project.up("spark-master", "spark-worker", profile="spark")
        yield project


def test_two_workers_replay_the_journal(project: Project) -> None:
    done = project.run("--profile", "spark", "run", "--rm", "-T", "replay", timeout_s=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "6 partitions" in done.stdout
    launched = project("logs", "spark-worker").splitlines()
    workers = {line.split()[0] for line in launched if "Asked to launch executor" in line}
    assert len(workers) == 2
    first = project("ps", "--quiet", "spark-worker").split()[0]
    answers = json.loads(docker("exec", first, "cat", "/var/lib/replay/answers/answers.json"))
    assert answers["counts"]["illegal"] == 0
