"""klamm.SimulatedCluster: methods, errors with replay lines, and checks."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import pytest

import klamm
from klamm.lab.actions.table import ACTIONS
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.python.actions import Conditions
from klamm.lab.python.cluster import ScriptedCluster
from tests.unit.report.pages import read_page

SEED_7 = "\nreplay: klamm.SimulatedCluster(brokers=3, seed=7)"


@pytest.mark.parametrize("word", ACTIONS)
def test_each_action_of_drills_is_a_typed_method(word: str) -> None:
    method = getattr(klamm.SimulatedCluster, word)
    assert method.__doc__
    assert set(get_type_hints(method)) == {*inspect.signature(method).parameters, "return"} - {
        "self"
    }


def test_until_and_expect_take_the_conditions_of_drills() -> None:
    of_cluster = {word for word, kind in CONDITIONS.items() if not kind.is_of_tool}
    assert set(Conditions.__annotations__) == of_cluster


def test_a_name_that_klamm_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'klamm' has no attribute 'Simulated'"):
        _ = importlib.import_module("klamm").Simulated


def leader_loss(seed: int) -> klamm.SimulatedCluster:
    """A closed cluster whose leader died under load."""
    with klamm.SimulatedCluster(brokers=3, seed=seed) as cluster:
        cluster.create_topic("t", partitions=4, replication_factor=3)
        cluster.produce({"t-0": 50})
        cluster.kill("leader of t-0")
        cluster.until(acknowledged={"t-0": 50}, consumed={"t-0": 50}, within="2min")
        cluster.start("dead")
        cluster.until(healthy=True)
        assert cluster.send("t-1", b"1", key=b"k") == 0
        (record,) = cluster.consume("t-1")
        assert (record.offset, record.key, record.value) == (0, b"k", b"1")
        cluster.check()
        return cluster


def test_the_same_seed_and_calls_give_the_same_journal() -> None:
    assert list(leader_loss(7).journal) == list(leader_loss(7).journal)
    assert list(leader_loss(7).journal) != list(leader_loss(8).journal)


def test_a_record_in_doubt_is_never_sent_again_by_klamm() -> None:
    with klamm.SimulatedCluster() as cluster:
        cluster.create_topic("t", replicas=[[0, 1, 2]])
        cluster.pause(2)
        with pytest.raises(klamm.ClusterError, match="t-0: the record may be stored") as raised:
            cluster.send("t-0", b"1", timeout_ms=1_000)
        assert not raised.value.definite
        cluster.until(isr={"t-0": [0, 1]})
        assert [record.value for record in cluster.consume("t-0")] == [b"1"]
        with pytest.raises(
            klamm.ClusterError, match="check: expected controller and brokers agree"
        ):
            cluster.check()
        cluster.resume("paused")
        cluster.check()


def test_each_call_of_consume_reads_what_is_there_by_then() -> None:
    with klamm.SimulatedCluster() as cluster:
        cluster.create_topic("t", replicas=[[0, 1]])
        for count in range(3):
            assert [record.offset for record in cluster.consume("t-0")] == list(range(count))
            cluster.wait("1s")  # until the last fetch has been answered
            cluster.send("t-0", b"1")


def test_a_topic_that_does_not_exist_is_named_at_once() -> None:
    with klamm.SimulatedCluster() as cluster:
        began_ms = cluster.elapsed_ms
        with pytest.raises(klamm.ClusterError, match="topic t does not exist"):
            cluster.consume("t-0")
        assert cluster.elapsed_ms == began_ms


def test_a_record_that_is_refused_is_sent_again_until_the_timeout() -> None:
    with klamm.SimulatedCluster(brokers=2) as cluster:
        cluster.create_topic("t", replicas=[[0, 1]], config={"min.insync.replicas": 2})
        cluster.kill(1)
        cluster.until(isr={"t-0": [0]})
        with pytest.raises(
            klamm.ClusterError, match="is not stored: NOT_ENOUGH_REPLICAS"
        ) as raised:
            cluster.send("t-0", b"1", timeout_ms=1_000)
        assert raised.value.definite
        cluster.start(1)
        assert cluster.send("t-0", b"2") == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: c.kill(7), "kill: the cluster has no broker 7\nhint: brokers: 0, 1, 2"),
        (lambda c: c.start(1), "start: broker 1 is already running"),
        (
            lambda c: c.until(leader={"t-0": 2}, within="1s"),
            "until: expected leader: {t-0: 2}, seen {t-0: 0} after 1.000 s",
        ),
        (
            lambda c: c.until(lambda: False, within="1s"),
            "until: the condition did not hold within 1s",
        ),
        (
            lambda c: c.expect(offline_partitions=1),
            "expect: expected offline_partitions: 1, seen 0",
        ),
        (
            lambda c: c.send("t-0", "text"),
            'send: the value must be bytes, not str\nhint: as in value=b"text", or None',
        ),
        (
            lambda c: c.send("t-0", b"", key=7),
            'send: the key must be bytes, not int\nhint: as in key=b"text", or None',
        ),
        (
            lambda c: c.consume("t"),
            "consume: the argument must be a partition, not 't'\nhint: as in t-0",
        ),
        (
            lambda c: c.kill({1}),
            "kill: a value that drills cannot contain: its type is set",
        ),
        (lambda c: c.send("t-9", b""), "send: cannot produce to t-9: the partition does not exist"),
        (
            lambda c: c.kill_zookeeper("leader"),
            "kill_zookeeper: the cluster has no private ensemble of ZooKeeper servers\n"
            "hint: use klamm.LocalCluster(zookeeper_servers=3)",
        ),
        (
            lambda c: c.act("parallel", ["kill_all", "wait"]),
            "parallel: not an action of drills\nhint: klamm drill schema describes all actions",
        ),
        (
            lambda c: c.send("t-0", b"", timeout_ms=-1),
            "send: timeout_ms must be a whole number from 1 on, not -1",
        ),
        (
            lambda c: c.create_topic("u", partitions=3, replicas=[[0]]),
            "create_topic: replicas is given with a number of partitions or replicas\n"
            "hint: omit partitions and replication_factor, which replicas determines",
        ),
        (lambda c: c.create_topic(5), "create_topic: the topic must be text (str), not int"),
        (
            lambda c: c.create_topic("u", config=["a"]),
            'create_topic: config must be a dict\nhint: as in config={"retention.ms": 1000}',
        ),
        (
            lambda c: c.create_topic("u", replication_factor="2"),
            "create_topic: replication_factor must be a whole number from 1 on, not '2'",
        ),
        (
            lambda c: c.create_topic("u", partitions=10**5000),
            "create_topic: partitions has more than 100 digits",
        ),
        (
            lambda c: c.create_znode({"/x": "\ud800"}),
            r"create_znode: \ud800 is not a character",
        ),
        (lambda c: c.set_znode({"/x": nested(100_000)}), "set_znode: nested too deeply"),
        (
            lambda c: c.act([5]),
            "[5]: not an action of drills\nhint: klamm drill schema describes all actions",
        ),
        (
            lambda c: c.create_topic("t"),
            "create_topic: expected exit_code: 0, seen 1: Error while executing topic command : "
            "Topic 't' already exists.",
        ),
        (
            lambda c: c.kill([]),
            'kill: name at least one broker\nhint: give an id, or e.g. "controller", "dead", '
            '"leader of t-0", "any ISR follower of t-0", "rack a"',
        ),
        (
            lambda c: c.wait("soon"),
            "wait must be a duration, not 'soon'\n"
            "hint: as in 500ms, 2s or 5min, with at most 9 digits",
        ),
        (
            lambda c: c.produce({"t-0": -1}),
            "produce of t-0 must be from 1 to 1000000, not -1",
        ),
        (
            lambda c: c.delete_znode("x"),
            "delete_znode must be the path of a znode, not 'x'",
        ),
        (lambda c: c.advance("x"), "advance must be a whole number, not 'x'\nhint: as in 3"),
        (
            lambda c: c.kill(None),
            'kill: None is not a broker\nhint: give an id, or e.g. "controller", "dead", '
            '"leader of t-0", "any ISR follower of t-0", "rack a"',
        ),
        (
            lambda c: c.until(),
            'until: no condition is given\nhint: e.g. until(leader={"t-0": 2})',
        ),
        (
            lambda c: c.until(5),
            "until: 5 is not a function\nhint: give a function, or conditions by name, e.g. "
            'leader={"t-0": 2}',
        ),
        (
            lambda c: c.produce({}),
            "produce: partitions with their values must be a dict with at least one entry",
        ),
        *(
            (
                lambda c, replicas=replicas: c.create_topic("u", replicas=replicas),
                "create_topic: each partition needs at least one replica\n"
                "hint: as in replicas=[[0, 1], [1, 2]]",
            )
            for replicas in ([], [[]], [[0], []])
        ),
        (lambda c: c.consume("t-7"), "consume: t-7: the partition does not exist"),
        (lambda c: c.__enter__(), "cluster: the cluster is already running"),
        (
            lambda c: c.create_topic("u", replicas=[[0], [77]]),
            "create_topic: the cluster has no broker 77\nhint: brokers: 0, 1, 2",
        ),
        (
            lambda c: [
                c.kill(2),
                c.until(brokers=[0, 1]),
                c.create_topic("u", replicas=[[0], [2]]),
            ],
            "create_topic: the topic was created, but u-1 has no leader after 30s: broker 2 is "
            "not registered",
        ),
        (
            lambda c: c.until(lambda: True, leader={"t-0": 2}),
            "until: give either a function or conditions by name",
        ),
        (lambda c: c.act("cut", 1, to=2), "cut: give either a value or named arguments"),
        (
            lambda c: c.create_topic("u", partitions="3"),
            "create_topic: partitions must be a whole number from 1 on, not '3'",
        ),
        (lambda c: c.act("kil", 1), "kil: not an action of drills\nhint: did you mean kill?"),
    ],
)
def test_an_error_is_one_exception_with_the_replay_line(
    call: Callable[[ScriptedCluster], object], text: str
) -> None:
    with klamm.SimulatedCluster(brokers=3, seed=7) as cluster:
        cluster.create_topic("t", replicas=[[0, 1, 2]])
        with pytest.raises(klamm.ClusterError) as raised:
            call(cluster)
        assert raised.value.definite is ("was created" not in text)
        assert str(raised.value) == text + SEED_7


def nested(depth: int) -> list[object]:
    """Return a list in a list, and so on."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_every_character_reaches_a_znode() -> None:
    text = '\0\n\x7f\x85\u2028\ufeff\U0001f600é\\"'
    with klamm.SimulatedCluster() as cluster:
        cluster.create_znode({"/x": text})
        cluster.expect(znode={"/x": text})


def test_actions_take_named_arguments_and_run_returns_the_output_of_a_tool() -> None:
    with klamm.SimulatedCluster() as cluster:
        cluster.create_topic("t")
        cluster.cut(from_=0, to=[1, 2], only="records")
        cluster.act("fail_disk", broker=2, kind="eio", log_dir=None, after_bytes=None)
        cluster.act("heal_all", broker=None)
        cluster.skew_clock(broker=1, ms=500)
        cluster.skew_clock(broker=2, ms=0)
        # The skew is a fault of a clock, not of the network.
        assert "cut" in cluster.page() and "clock +500 ms" in cluster.page()
        taken = "its arguments, by name: from_, to, between, only$"
        with pytest.raises(TypeError, match=rf"^cut: .*'ms'; {taken}"):
            cluster.cut(from_=0, to=1, ms=5)  # type: ignore[call-arg]
        assert cluster.run("topics --zookeeper {zk} --list").stdout == "t\n"


@pytest.mark.parametrize(
    ("error", "verdict", "tone", "fact"),
    [
        (None, "No failure.", "good", None),
        (ValueError("t-0 is lost\nor so"), "t-0 is lost", "bad", "ValueError: t-0 is lost\nor so"),
        (AssertionError(), "AssertionError", "bad", "AssertionError: AssertionError"),
    ],
)
def test_a_page_names_the_error_and_how_to_repeat_the_run(
    error: Exception | None, verdict: str, tone: str, fact: str | None
) -> None:
    with klamm.SimulatedCluster(seed=5) as cluster:
        cluster.create_topic("t")
        root = read_page(cluster.page("what happened", error))
    said = root.only("p", "verdict")
    assert (root.only("h1").text, said.text) == ("what happened", verdict)
    assert tone in (said.attributes["class"] or "")
    facts = root.only("dl", "facts")
    words = [name.text for name in facts.all("dt")], [value.text for value in facts.all("dd")]
    errors = {} if fact is None else {"error": fact}
    assert dict(zip(*words, strict=True)) == {
        "world": "simulated, seed 5",
        **errors,
        "repeat it with": "klamm.SimulatedCluster(brokers=3, seed=5)",
    }


def test_logs_in_memory_have_no_records_and_can_be_preloaded_while_there_is_a_leader() -> None:
    with klamm.SimulatedCluster(segments=False) as cluster:
        cluster.create_topic("t", replicas=[[1]])
        cluster.produce({"t-0": 5})
        cluster.until(acknowledged={"t-0": 5})
        with pytest.raises(klamm.ClusterError, match="in-memory logs keep no records\nhint: omit"):
            cluster.consume("t-0")
        cluster.create_topic("u", replicas=[[1]])
        cluster.kill(1)
        with pytest.raises(klamm.ClusterError, match="u-0 has no running leader, so its replicas"):
            cluster.preload({"u-0": "1MB"})
    with klamm.SimulatedCluster() as cluster:
        cluster.create_topic("t")
        with pytest.raises(klamm.ClusterError, match="not log segments on disk"):
            cluster.preload({"t-0": "1MB"})


def test_records_of_send_and_produce_share_a_partition() -> None:
    with klamm.SimulatedCluster() as cluster:
        cluster.create_topic("t", replicas=[[0, 1, 2]])
        cluster.produce({"t-0": 5})
        cluster.until(consumed={"t-0": 5})
        assert [cluster.send("t-0", b"1") for _ in range(2)] == [5, 6]
        assert len(cluster.consume("t-0")) == 7
        cluster.check()


def test_a_cluster_can_be_started_again_with_nothing_in_it() -> None:
    cluster = klamm.SimulatedCluster()
    for _ in range(2):
        with cluster:
            cluster.create_topic("t")
            assert cluster.run("topics --zookeeper {zk} --list").stdout == "t\n"


def test_a_partition_without_a_leader_cannot_be_read() -> None:
    with klamm.SimulatedCluster() as cluster:
        cluster.create_topic("t", replicas=[[1]])
        cluster.send("t-0", b"1")
        cluster.kill(1)
        began_ms = cluster.elapsed_ms
        with pytest.raises(klamm.ClusterError, match="t-0 could not be read within") as raised:
            cluster.consume("t-0")
        assert raised.value.definite
        assert cluster.elapsed_ms == began_ms + 30_000


def test_a_violated_invariant_is_an_error_of_the_call_that_runs_the_cluster() -> None:
    with klamm.SimulatedCluster(quirks=["C7"]) as cluster:
        cluster.create_topic("t", replicas=[[0, 1], [2, 0]])
        cluster.stop(0)
        with pytest.raises(klamm.ClusterError, match="until: shutdown-stops-followers: Before the"):
            cluster.until(brokers=[1, 2])
        with pytest.raises(klamm.ClusterError, match="check: expected always shutdown-stops-foll"):
            cluster.check()


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.kill(0), "error"),
        (lambda c: c.until(lambda: True), "error"),
        (lambda c: c.send("t-0", b""), "error"),
        (lambda c: c.consume("t-0"), "error"),
        (lambda c: c.check(), "error"),
        (lambda c: c.page(), "value"),
        (lambda c: c.elapsed_ms, "value"),
    ],
)
def test_a_closed_cluster_can_only_be_read(
    call: Callable[[ScriptedCluster], object], kind: str
) -> None:
    with klamm.SimulatedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
    if kind == "value":
        assert call(cluster)
        return
    with pytest.raises(
        klamm.ClusterError, match=r"has been closed\nhint: act on .* journal, page\(\) and"
    ):
        call(cluster)


def test_the_hints_of_options_are_for_python() -> None:
    with pytest.raises(klamm.ClusterError) as raised:
        klamm.SimulatedCluster(controllers=[])
    assert raised.value.hint is None


@pytest.mark.slow
def test_the_hint_of_a_zookeeper_that_does_not_respond_is_for_python() -> None:
    with pytest.raises(klamm.ClusterError) as raised:
        klamm.LocalCluster(zookeeper="127.0.0.1:1").__enter__()
    assert raised.value.hint is not None
    assert raised.value.hint.endswith('klamm.LocalCluster(zookeeper="host:port/chroot")')


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("brokrs", r"did you mean brokers\?"),
        ("data_dirs", r"did you mean data_dir\?"),
        ("xyz", "known: brokers, seed, controllers,"),
        ("topics", "create topics with create_topic,"),
        ("zookeeper_servers", "use klamm.LocalCluster"),
    ],
)
def test_an_unknown_option_is_refused(option: str, hint: str) -> None:
    with pytest.raises(klamm.ClusterError, match=rf"unknown option '{option}'\nhint: {hint}"):
        klamm.SimulatedCluster(**{option: 3})


@pytest.mark.parametrize("seed", ["x", None, 1.5, -1, True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(klamm.ClusterError, match="seed must be a whole number from 0 on, not"):
        klamm.SimulatedCluster(**{"seed": seed})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"data_dir": 5}, "data_dir must be a str or a Path, not int"),
        ({"zookeeper": "not a host"}, "not a ZooKeeper address: 'not a host'"),
        ({"zookeeper": "h:1", "zookeeper_servers": 3}, "exclude each other"),
        ({"zookeeper_servers": "3"}, "zookeeper_servers must be a whole number from 1 on, not '3'"),
        ({"zookeeper_servers": 2}, "cannot have 2 ZooKeeper servers\nhint: choose 1, 3, 5"),
        ({"racks": "a"}, r'racks must be a list\nhint: as in \["a", "b", "c"\]'),
        ({"brokers": 0}, r"brokers must be from 1 to 100, not 0\nhint: a number as in 3, or ids"),
        ({"segments": "1"}, "segments must be true or false, not '1'\nhint: without segments, "),
        ({"quirks": "2.8.2"}, "quirks must be a list of names, not '2.8.2'\nhint: as in quirks="),
        ({"quirks": [5]}, r"quirks must be a list of names, not \[5\]"),
        ({"zookeeper": 5}, r"the address of ZooKeeper must be text \(str\), not int"),
        ({"seed": 10**5000}, r"seed has more than 100 digits\nreplay: .*\(brokers=3, seed=<int>\)"),
        ({"controllers": 1}, "controllers must be a list"),
        ({"brokers": "3"}, "brokers must be a whole number from 1 on, not '3'"),
        ({"brokers": None}, "brokers must be a whole number, not None"),
    ],
)
def test_an_invalid_option_is_refused_before_the_start(
    options: dict[str, object], text: str
) -> None:
    with pytest.raises(klamm.ClusterError, match=text):
        klamm.LocalCluster(**options)


def test_none_is_the_default_of_an_option(tmp_path: Path) -> None:
    unset = dict.fromkeys(("controllers", "racks", "session_timeout", "config", "data_dir"))
    with klamm.SimulatedCluster(**unset) as cluster:
        cluster.expect(brokers=[0, 1, 2])
    with klamm.SimulatedCluster(config={}) as cluster:
        cluster.expect(brokers=[0, 1, 2])


def test_brokers_may_be_a_range() -> None:
    with klamm.SimulatedCluster(brokers=range(3, 5)) as cluster:
        cluster.expect(brokers=[3, 4])


def test_a_cluster_must_be_started_once_in_an_empty_directory(tmp_path: Path) -> None:
    cluster = klamm.SimulatedCluster(data_dir=str(tmp_path))
    with pytest.raises(klamm.ClusterError, match="the cluster has not been started\nhint: start"):
        cluster.kill(1)
    with cluster:
        pass
    assert cluster.journal_path is not None
    assert len(cluster.journal_path.read_text().splitlines()) == len(cluster.journal)
    with pytest.raises(klamm.ClusterError, match=r"data_dir .* is not an empty directory"):
        cluster.__enter__()
    with pytest.raises(klamm.ClusterError, match=r"data_dir .* does not exist"):
        klamm.SimulatedCluster(data_dir=tmp_path / "x").__enter__()


def test_the_replay_line_of_a_local_cluster_has_all_its_options() -> None:
    cluster = klamm.LocalCluster(2, zookeeper_servers=3, racks=["a", "b"])
    assert cluster.replay == "klamm.LocalCluster(brokers=2, zookeeper_servers=3, racks=['a', 'b'])"


def test_all_zookeeper_servers_of_a_local_cluster_can_be_named() -> None:
    cluster = klamm.LocalCluster(2, zookeeper_servers=3)
    for server in (1, 3, "leader", "follower"):
        with pytest.raises(klamm.ClusterError, match="has not been started"):
            cluster.act("kill_zookeeper", server)
    with pytest.raises(klamm.ClusterError, match="no ZooKeeper server 4"):
        cluster.act("kill_zookeeper", 4)
