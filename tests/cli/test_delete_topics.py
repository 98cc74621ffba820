"""`klamm topics --delete` on a running cluster, as processes: by its address."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving import klamm_up


@pytest.mark.slow
def test_topics_are_deleted_and_made_again(tmp_path: Path) -> None:
    with klamm_up(tmp_path / "data", "--brokers", "3") as up:
        server = ("--bootstrap-server", up.url)
        create = ("topics", *server, "--create", "--partitions", "2", "--replication-factor", "3")
        for topic in ("a", "b", "c"):
            up.ok(*create, "--topic", topic)
        describe = ("topics", *server, "--describe", "--topic", "a")
        first = up.ok(*describe).splitlines()[0]
        assert up.ok("topics", *server, "--delete", "--topic", "a|b") == ""
        assert up.ok("topics", *server, "--list") == "c\n"
        refused = up.run("topics", *server, "--delete", "--topic", "a")
        assert refused.returncode == 1
        assert "Topic 'a' does not exist as expected" in refused.stdout
        up.ok(*create, "--topic", "a")
        again = up.ok(*describe).splitlines()[0]
        assert first.startswith("Topic: a\tTopicId: ")
        assert first != again, "the topic made again has the id of the one before"


@pytest.mark.slow
def test_a_cluster_that_deletes_nothing_says_so(tmp_path: Path) -> None:
    with klamm_up(
        tmp_path / "data", "--brokers", "2", "--config", "delete.topic.enable=false"
    ) as up:
        server = ("--bootstrap-server", up.url)
        up.ok("topics", *server, "--create", "--topic", "a", "--replication-factor", "2")
        refused = up.run("topics", *server, "--delete", "--topic", "a")
        assert refused.returncode == 1
        assert "Topic deletion is disabled." in refused.stdout
        assert up.ok("topics", *server, "--list") == "a\n"
