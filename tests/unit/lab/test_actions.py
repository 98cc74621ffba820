"""Actions and steps by themselves: what each does to a cluster, and its request of the HTTP API."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.disk_faults import DiskFault, FaultKind
from klamm.cluster.errors import KlammError, UsageError, WrongState
from klamm.cluster.request_faults import RequestFault
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.lab.actions.action import Action, BrokerRef, InRack, request_of
from klamm.lab.actions.actions import (
    BounceRegistration,
    FailDisk,
    FailLogDir,
    HealDisks,
    Kill,
    MoveController,
    Pause,
    PowerOff,
    Resume,
    SkewClock,
    SlowDisk,
    Start,
    Stop,
)
from klamm.lab.actions.network_actions import (
    OTHERS,
    Clog,
    Cut,
    DegradeNetwork,
    Delay,
    FailRequests,
    HealNetwork,
    Isolate,
    LagZookeeper,
)
from klamm.lab.actions.steps import (
    ActOnZooKeeper,
    BringUp,
    CreateZnode,
    DeleteZnode,
    ElectLeaders,
    KillAll,
    Produce,
    ProduceConstantly,
    Reassign,
    SetTopicPartitions,
    SetZnode,
    UpAgain,
)
from klamm.lab.conditions.condition import plain_text
from klamm.lab.drill import Step, every_step
from klamm.tools.command_result import CommandResult
from klamm.world.network import CLIENTS, ZOOKEEPER, LinkFault, Traffic, between, one_way
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import ANY_VERSION, Create, Delete, Exists, GetData, ResultCode, SetData
from tests.unit.tools.vectors import memory_server, put

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
A_RACK, B_RACK = InRack("a"), InRack("b")
IN_RACK = {"a": [1, 2], "b": [2]}


class Calls:
    """An object with attributes whose other calls are recorded: their names and arguments."""

    def __init__(self, made: list[tuple[Any, ...]], **attributes: Any) -> None:
        self._made = made
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **named: self._made.append((name, *args, *named.items()))


class Target(Calls):
    """A cluster of the brokers 0 to 3, and what actions have done to it."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        super().__init__(self.made)
        self.server = memory_server()
        self.store = MemoryStore(self.server)
        transport = SimpleNamespace(
            faults=(),
            heal=lambda: self.made.append(("heal the network",)),
            request_faults=Calls(self.made),
        )
        self.cluster: Any = Calls(
            self.made,
            disks=Calls(self.made),
            spec=SimpleNamespace(broker_ids=(0, 1, 2, 3)),
            clocks=defaultdict(lambda: SimpleNamespace(skew_ms=0)),
            transport=transport,
        )

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        if isinstance(broker, InRack):
            return IN_RACK[broker.rack]
        assert isinstance(broker, int)
        return [broker]

    @property
    def faults(self) -> tuple[LinkFault, ...]:
        return cast("tuple[LinkFault, ...]", self.cluster.transport.faults)


@pytest.fixture
def target() -> Target:
    return Target()


DISK = DiskFault(FaultKind.EIO, after_bytes=7, times=2)


@pytest.mark.parametrize(
    ("action", "made"),
    [
        (Kill(1), [("note_state", 1, "killed"), ("kill", 1)]),
        (Start(1), [("note_state", 1, "running"), ("start", 1)]),
        (Stop(1), [("note_state", 1, "stopped"), ("shut_down", 1)]),
        (
            PowerOff(1),
            [("note_state", 1, "powered off"), ("kill", 1, ("loses_unflushed", True))],
        ),
        (
            Pause(A_RACK),
            [
                ("note_state", 1, "paused"),
                ("pause", 1),
                ("note_state", 2, "paused"),
                ("pause", 2),
            ],
        ),
        (Resume(1), [("note_state", 1, "running"), ("resume", 1)]),
        (FailLogDir(1, "d"), [("fail_log_dir", 1, "d")]),
        (FailDisk(FaultKind.EIO, 1, "d", False, 7, 2), [("fail", 1, "d", DISK)]),
        (
            FailDisk(FaultKind.EIO, A_RACK, None, False, 7, 2),
            [("fail", n, None, DISK) for n in (1, 2)],
        ),
        (FailDisk(FaultKind.EIO, journal=True, after_bytes=7, times=2), [("fail_journal", DISK)]),
        (SlowDisk(1, 100, "d"), [("slow", 1, "d", 100)]),
        (SlowDisk(A_RACK, 100), [("slow", n, None, 100) for n in (1, 2)]),
        (HealDisks(), [("heal",)]),
        (HealNetwork(), [("heal the network",)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_action_does(target: Target, action: Action, made: list[tuple[Any, ...]]) -> None:
    action.act(target)
    assert target.made == made


def test_a_skewed_clock_is_that_of_its_broker(target: Target) -> None:
    SkewClock(2, -500).act(target)
    assert {id_: clock.skew_ms for id_, clock in target.cluster.clocks.items()} == {2: -500}


def test_a_bounced_registration_keeps_its_data_and_is_of_the_drills_session(
    target: Target,
) -> None:
    put(KafkaZkClient(MemoryStore(target.server)), "/brokers/ids/2", None)
    (before,) = target.store.read([GetData("/brokers/ids/2")])
    BounceRegistration(2).act(target)
    (after,) = target.store.read([GetData("/brokers/ids/2")])
    assert after.data == before.data
    assert after.stat.ephemeral_owner == target.store.session_id
    assert after.stat.czxid > before.stat.czxid


def test_a_broker_without_a_registration_gets_none(target: Target) -> None:
    with pytest.raises(WrongState, match="broker 2 is not registered"):
        BounceRegistration(2).act(target)
    assert target.store.read([GetData("/brokers/ids/2")])[0].code is ResultCode.NONODE


def test_the_controller_moves_as_its_znode_goes(target: Target) -> None:
    put(KafkaZkClient(target.store), "/controller", {"brokerid": 1})
    MoveController().act(target)
    assert target.store.read([Exists("/controller")])[0].stat is None


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({}, "give either 'broker' or 'journal'"),
        ({"broker": 1, "journal": True}, "give either 'broker' or 'journal'"),
        ({"journal": True, "log_dir": "d"}, "'log_dir' requires 'broker'"),
        ({"log_dir": "d"}, "'log_dir' requires 'broker'"),
    ],
)
def test_a_disk_fault_is_of_a_broker_or_of_the_journal(fault: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        FailDisk(FaultKind.EIO, **fault)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (SkewClock, {"broker": 1, "ms": 86_400_001}),
        (SkewClock, {"broker": 1, "ms": -86_400_001}),
        (SlowDisk, {"broker": 1, "bytes_per_s": 0}),
        (FailDisk, {"kind": "eio", "broker": 1, "after_bytes": -1}),
        (FailDisk, {"kind": "eio", "broker": 1, "times": 0}),
        (Delay, {"from": [1], "to": [2], "ms": 0}),
        (Delay, {"from": [1], "to": [2], "ms": 600_001}),
        (DegradeNetwork, {}),
        (DegradeNetwork, {"loss": 1.5}),
        (DegradeNetwork, {"repetition": -0.1}),
        (FailRequests, {"drop": True, "times": 0}),
    ],
)
def test_numbers_out_of_bounds_are_no_arguments(kind: type[Action], values: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, kind)


# -- faults of the network


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        (
            Cut(sources=(1,), destinations=(B_RACK, ZOOKEEPER)),
            LinkFault(
                links=one_way([1], [2, ZOOKEEPER]),
                is_cut=True,
                text="cut: 1 -> InRack(rack='b'),zookeeper",
            ),
        ),
        (
            Cut(between=((1,), (OTHERS,)), only=Traffic.CONTROL),
            LinkFault(
                links=between([[1], [0, 2, 3]]),
                only=Traffic.CONTROL,
                is_cut=True,
                text="cut: 1 | others (only control)",
            ),
        ),
        (
            Clog(sources=(CLIENTS, 3), destinations=(OTHERS,)),
            LinkFault(
                links=one_way([CLIENTS, 3], [0, 1, 2]),
                is_clogged=True,
                text="clogged: clients,3 -> others",
            ),
        ),
        (
            Delay(sources=(0,), destinations=(1,), ms=50),
            LinkFault(links=one_way([0], [1]), delay_ms=50, text="delayed by 50 ms: 0 -> 1"),
        ),
        (
            DegradeNetwork(loss=0.1, repetition=0.2, reordering=0.3),
            LinkFault(
                only=Traffic.RECORDS,
                loss=0.1,
                repetition=0.2,
                reordering=0.3,
                is_degraded=True,
                text="degraded (loss 0.1, repetition 0.2, reordering 0.3): all messages with "
                "records",
            ),
        ),
        (
            DegradeNetwork(sources=(0,), destinations=(1,), loss=0.1),
            LinkFault(
                links=one_way([0], [1]),
                loss=0.1,
                is_degraded=True,
                text="degraded (loss 0.1): 0 -> 1",
            ),
        ),
        (
            LagZookeeper(2, 500),
            LinkFault(
                links=one_way([ZOOKEEPER], [2]), lag_ms=500, text="lag of 500 ms: zookeeper -> 2"
            ),
        ),
        (
            Isolate((2, 1)),
            LinkFault(
                links=between([[1, 2], [0, 3]]),
                only=Traffic.RECORDS,
                is_cut=True,
                isolated=(1, 2),
            ),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fault_of_the_network_is_added_to_the_others(
    target: Target, action: Action, fault: LinkFault
) -> None:
    other = LinkFault(links=one_way([0], [3]), is_cut=True)
    target.cluster.transport.faults = (other,)
    action.act(target)
    assert target.faults == (other, fault)


def test_a_degraded_network_and_an_isolation_replace_earlier_ones(target: Target) -> None:
    Cut(sources=(0,), destinations=(1,)).act(target)
    DegradeNetwork(loss=0.1).act(target)
    Isolate((1,)).act(target)
    DegradeNetwork(loss=0.2).act(target)
    Isolate((2,)).act(target)
    Clog(sources=(0,), destinations=(1,)).act(target)
    found = [(one.loss, one.isolated, one.is_clogged) for one in target.faults]
    assert found == [(0, (), False), (0.2, (), False), (0, (2,), False), (0, (), True)]
    Isolate(()).act(target)
    assert [one.loss for one in target.faults] == [0, 0.2, 0]


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (Isolate((0, 1, 2, 3)), "cannot isolate all brokers"),
        (Cut(sources=(0, 1), destinations=(2, 3, OTHERS)), None),
        (Cut(sources=(0, 1, 2, 3), destinations=(OTHERS,)), "no broker is left for 'others'"),
    ],
)
def test_somebody_must_be_left_on_each_side(
    target: Target, action: Action, why: str | None
) -> None:
    if why is None:
        action.act(target)
        assert target.faults
        return
    with pytest.raises(WrongState, match=why):
        action.act(target)
    assert target.faults == ()


@pytest.mark.parametrize("kind", [Clog, DegradeNetwork])
def test_links_with_zookeeper_only_lose_or_delay(kind: type[Action]) -> None:
    with pytest.raises(ValueError, match=r"zookeeper .*: cut them"):
        kind(sources=(1,), destinations=(ZOOKEEPER,))  # type: ignore[call-arg]


def test_a_fault_of_links_needs_links_unless_the_network_is_degraded() -> None:
    DegradeNetwork(loss=0.5)
    for kind in (Cut, Clog):
        with pytest.raises(ValueError, match="give either 'from' and 'to'"):
            kind()
    with pytest.raises(ValueError, match="'only' requires links: name the groups"):
        DegradeNetwork(loss=0.5, only=Traffic.CONTROL)


def test_only_a_simulated_cluster_delays_zookeeper() -> None:
    Delay(sources=(1,), destinations=(2,), ms=1).check_world(is_simulated=False)
    late = [
        Delay(sources=(1,), destinations=(ZOOKEEPER,), ms=1),
        Delay(between=((1,), (ZOOKEEPER,)), ms=1),
        LagZookeeper(1, 1),
    ]
    for action in late:
        action.check_world(is_simulated=True)
        with pytest.raises(UsageError, match="this fault requires the simulated world"):
            action.check_world(is_simulated=False)


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        (FailRequests(drop=True), RequestFault(None, None, None, None)),
        (
            FailRequests(
                api="Fetch", client="c", broker=A_RACK, error="NOT_LEADER_OR_FOLLOWER", times=3
            ),
            RequestFault("Fetch", "c", frozenset({1, 2}), 3, Errors.NOT_LEADER_OR_FOLLOWER),
        ),
        (FailRequests(cut=True), RequestFault(None, None, None, None, None, True)),
        (FailRequests(delay_ms=9), RequestFault(None, None, None, None, delay_ms=9)),
    ],
)
def test_a_fault_of_requests(target: Target, action: Action, fault: RequestFault) -> None:
    action.act(target)
    assert target.made == [("append", fault)]


# -- requests of the HTTP API


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        (Kill(2), ("/brokers/2/kill", None)),
        (Start(2, wait=False), ("/brokers/2/start", {"wait": False})),
        (FailLogDir(1, "d"), ("/brokers/1/fail-log-dir", {"log_dir": "d"})),
        (SkewClock(1, 5), ("/brokers/1/skew-clock", {"ms": 5})),
        (PowerOff(1), ("/brokers/1/power-off", None)),
        (SlowDisk(1, 5), ("/disks/slow", {"broker": 1, "bytes_per_s": 5, "log_dir": None})),
        (Isolate((1, 2)), ("/network", {"isolated": (1, 2)})),
        (HealDisks(), ("/disks/heal", None)),
        (MoveController(), ("/controller/move", None)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_request_of_an_action(
    action: Action, request_: tuple[str, dict[str, Any] | None]
) -> None:
    assert request_of(action) == request_


# -- steps that only scenarios have


class Operator:
    """Answers the drill's requests with ``answers``, in order."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.answers: list[object] = []

    def ask(self, request: object) -> object:
        self.asked.append(request)
        return self.answers.pop(0)


class Run(Calls):
    """A run of a scenario: what its conditions say, and what was done."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        super().__init__(self.made)
        spec = SimpleNamespace(broker_ids=(2, 0, 1), is_candidate=lambda broker_id: broker_id != 1)
        self.cluster: Any = Calls(self.made, nodes=dict[int, object](), spec=spec)
        self.operator = Operator()
        self.driver: Any = Calls(
            self.made, ensemble=None, clients=Calls(self.made), operator=self.operator
        )
        self.states = {0: "killed"}
        self.refused: set[Any] = set()
        self.view = SimpleNamespace(read_json=lambda path: self.znodes.get(path))
        self.znodes: dict[str, Any] = {}

    def produced(self) -> list[TopicPartition]:
        return []

    def wait_for(self, condition: Any) -> bool:
        self.made.append(("wait for", condition.kind, list(condition.wanted)))
        return len(condition.wanted) not in self.refused


@pytest.fixture
def run() -> Run:
    return Run()


def act(action: Action, run: Run) -> Any:
    return action.act(run)


def test_brokers_come_up_one_by_one(run: Run) -> None:
    act(BringUp((2, 0)), run)
    assert run.made == [
        ("start", 2),
        ("wait for", "brokers", [2]),
        ("quiesce",),
        ("start", 0),
        ("wait for", "brokers", [2, 0]),
        ("quiesce",),
    ]
    run.refused = {1}
    with pytest.raises(KlammError, match="broker 2 did not register"):
        act(BringUp((2, 0)), run)


def test_a_killed_cluster_comes_up_again_and_only_then_elects_a_controller(run: Run) -> None:
    run.cluster.begin_start_all = lambda: run.cluster.nodes.update({2: None, 1: None, 0: None})
    act(UpAgain(), run)
    assert run.made == [
        ("wait for", "brokers", []),
        ("wait for", "brokers", [0, 1, 2]),
        ("begin_candidacy", 0),
        ("begin_candidacy", 2),
    ]
    assert run.states == {}


@pytest.mark.parametrize(
    ("refused", "nodes", "why"),
    [
        ({0}, {}, "brokers of the killed process are still registered"),
        (set(), {2: None, 1: None}, "broker 1 is already running"),
        ({3}, {}, "not all brokers have registered again"),
    ],
)
def test_a_killed_cluster_that_does_not_come_up_again(
    run: Run, refused: set[int], nodes: dict[int, None], why: str
) -> None:
    run.refused, run.cluster.nodes = refused, nodes
    with pytest.raises(KlammError, match=why):
        act(UpAgain(), run)


def test_all_brokers_of_a_killed_process_are_killed(run: Run) -> None:
    run.cluster.nodes = {2: None, 0: None}
    run.cluster.kill_all = run.cluster.nodes.clear
    act(KillAll(), run)
    assert not run.cluster.nodes
    assert run.made == [("note_state", 2, "killed"), ("note_state", 0, "killed")]


def test_partitions_are_written_beside_the_existing_ones(run: Run) -> None:
    run.znodes["/brokers/topics/t"] = {"version": 3, "partitions": {"0": [1], "1": [2]}}
    act(SetTopicPartitions({T1: (3,), TopicPartition("t", 2): (1, 2)}), run)
    ((_, change),) = run.made
    assert isinstance(change, SetData)
    assert (change.path, change.version) == ("/brokers/topics/t", ANY_VERSION)
    assert json.loads(change.data or b"") == {
        "version": 3,
        "partitions": {"0": [1], "1": [3], "2": [1, 2]},
    }
    with pytest.raises(KlammError, match="znode /brokers/topics/u is missing or malformed"):
        act(SetTopicPartitions({TopicPartition("u", 0): (1,)}), run)


@pytest.mark.parametrize(
    ("action", "change"),
    [
        (CreateZnode({"/a": b"x"}), Create("/a", b"x")),
        (CreateZnode({"/a-": None}, is_sequential=True), Create("/a-", None, sequential=True)),
        (SetZnode({"/a": b"x"}), SetData("/a", b"x", ANY_VERSION)),
        (DeleteZnode(["/a"]), Delete("/a", ANY_VERSION)),
    ],
)
def test_znodes_are_changed_whatever_their_version(run: Run, action: Action, change: Any) -> None:
    act(action, run)
    assert run.made == [("write", change)]


def test_zookeepers_servers_need_an_ensemble(run: Run) -> None:
    with pytest.raises(UsageError, match="no private ensemble of ZooKeeper servers"):
        act(ActOnZooKeeper("kill", "leader"), run)
    run.driver.ensemble = SimpleNamespace(
        find=lambda server: f"the {server}", act=lambda *args: run.made.append(args)
    )
    act(ActOnZooKeeper("kill", "leader"), run)
    assert run.made == [("kill", "the leader")]


NO_PARTITION = ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "no t-1")
MOVED = ApiError(Errors.NOT_CONTROLLER)
NOT_NEEDED = ApiError(Errors.ELECTION_NOT_NEEDED)


def test_a_refused_reassignment_is_told_like_a_tools_error(run: Run) -> None:
    run.operator.answers = [
        AlterPartitionReassignmentsResponse(ApiError(), {T0: ApiError(), T1: NO_PARTITION}),
        AlterPartitionReassignmentsResponse(ApiError(), {T0: ApiError()}),
        AlterPartitionReassignmentsResponse(ApiError(Errors.NOT_CONTROLLER), {T0: NO_PARTITION}),
    ]
    action = Reassign({T0: (1, 2), T1: None})
    text = "t-1: UNKNOWN_TOPIC_OR_PARTITION: no t-1\n"
    assert act(action, run) == CommandResult("", text, 1)
    assert act(action, run) == CommandResult("", "", 0)
    assert act(action, run) == CommandResult("", "NOT_CONTROLLER\n", 1)
    assert run.operator.asked == [AlterPartitionReassignmentsRequest({T0: (1, 2), T1: None})] * 3


def test_elections_are_asked_for_and_their_refusals_told(run: Run) -> None:
    run.operator.answers = [ElectLeadersResponse(Errors.NONE, {T0: NOT_NEEDED})]
    found = act(ElectLeaders(ElectionType.UNCLEAN, (T0,)), run)
    assert found == CommandResult("", "t-0: ELECTION_NOT_NEEDED\n", 1)
    assert run.operator.asked == [ElectLeadersRequest(ElectionType.UNCLEAN, (T0,), 30_000)]


@pytest.mark.parametrize(
    ("action", "last"),
    [
        (Produce({T0: 3, T1: 4}), [("produce", T0, 3), ("produce", T1, 4)]),
        (ProduceConstantly({T0: 0.5, T1: 2}), [("produce_constantly", {T0: 0.5, T1: 2})]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_records_are_produced_only_where_the_scenario_may(
    run: Run, action: Action, last: list[Any]
) -> None:
    act(action, run)
    checked = [one for one in run.made if one[0] == "check_may_produce"]
    assert checked == [("check_may_produce", T0), ("check_may_produce", T1)]
    assert [one for one in run.made if one not in checked] == last


def test_every_step_is_also_found_in_branches() -> None:
    one, two, three = Step("one"), Step("two"), Step("three")
    inner = Step("inner", branches=((three,),))
    outer = Step("outer", branches=((one, inner), (two,)))
    found = [step.name for step in every_step([outer, Step("last")])]
    assert found == ["outer", "one", "inner", "three", "two", "last"]


def test_a_plain_value_is_one_line_of_yaml() -> None:
    value = {"a": [1, None, True], "b": ("x", False), "c": {}}
    assert plain_text(value) == "{a: [1, null, true], b: [x, false], c: {}}"
