"""The actions and conditions of drills as typed Python: methods of a cluster, keywords of `until`.

The generated sections come from the tables of the drill language (`make docs` rewrites them).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypedDict

__tracebackhide__ = True
"""Tells pytest to omit the functions of this file from tracebacks."""
Value = bool | int | float | str | Sequence["Value"] | Mapping[str, "Value"] | None
"""A value in a drill: anything that JSON can represent."""
Brokers = int | str | Sequence[int | str]
"""One or more brokers: ids, or words of drills such as ``controller`` and ``leader of t-0``."""
Words = str | Sequence[str]
"""One or more names, e.g. of topics, partitions or znodes."""
P = ParamSpec("P")


def _by_name(
    method: Callable[Concatenate[Actions, P], None],
) -> Callable[Concatenate[Actions, P], None]:
    """Make a method without a body execute the action of its name, with its named arguments.

    A keyword of Python such as `from` is the argument `from_` of the method.
    """

    signature = inspect.signature(method)
    taken = ", ".join(name for name in signature.parameters if name != "self")

    @wraps(method)
    def execute(self: Actions, /, *args: P.args, **arguments: P.kwargs) -> None:
        try:
            signature.bind(self, *args, **arguments)
        except TypeError as error:
            text = f"{method.__name__}: {error}; its arguments, by name: {taken}"
            raise TypeError(text) from None
        words: dict[str, Any] = {name.rstrip("_"): value for name, value in arguments.items()}
        self.act(method.__name__, **words)

    return execute


class Conditions(TypedDict, total=False):
    """Conditions that `until` waits for and `expect` checks, by their names in drills."""

    # <!-- generated: conditions -->
    brokers: Sequence[int | str]
    """Exactly these brokers are registered in /brokers/ids."""
    unregistered: Brokers
    """These brokers are not registered in /brokers/ids: ids, `rack a` or `each`."""
    leader: Mapping[str, int | str]
    """The leaders in the partition state znodes."""
    isr: Mapping[str, Sequence[int | str]]
    """The ISRs in the partition state znodes, in any order."""
    leader_epoch: Mapping[str, int]
    """The leader epochs in the partition state znodes."""
    replicas: Mapping[str, Sequence[int]]
    """The replicas in the topic znode, in this order."""
    partition_state: Mapping[str, str]
    """The states of partitions, as known to the active controller."""
    hosts: Mapping[int, Words]
    """For each of these brokers: exactly these partitions have a replica in its log directories."""
    offline_partitions: int
    """Number of partitions without a leader, as counted by the active controller."""
    controller: int | str
    """The broker in /controller, or `none`. `moved`: a controller was elected since the step
    began."""
    controller_epoch: int
    """The number in /controller_epoch."""
    acknowledged: Mapping[str, int]
    """The whole ISR has acknowledged exactly this number of records of the drill's producer."""
    acknowledged_at_least: Mapping[str, int]
    """The whole ISR has acknowledged at least this number of records. Use it for constant-rate
    producers, which never stop."""
    consumed: Mapping[str, int]
    """The drill's consumer has read exactly this number of records."""
    exists: Words
    """These znodes exist."""
    absent: Words
    """These znodes do not exist."""
    znode: Mapping[str, Value]
    """Znodes have this data, compared as JSON or as text."""
    deleted: Words
    """These topics and the requests to delete them no longer exist."""
    reassigning: Words
    """Exactly these partitions are being reassigned. `[]` means that no partition is."""
    not_reassigning: Words
    """No partition of these topics is being reassigned."""
    journal: Mapping[str, Value]
    """A row of the journal with these values was written since the step began."""
    healthy: bool
    """Every broker of the cluster is running and registered, every partition has a leader and
    all its replicas in sync, and no reassignment, deletion or election request is pending."""
    agrees: bool
    """Controller and running brokers agree with ZooKeeper, as is checked at the end of a drill."""
    # <!-- end -->


class Actions:
    """The actions of drills, one method for each."""

    def act(self, word: str, value: Value = None, /, **arguments: Value) -> None:
        """Execute the action with this name in drills, with a single value or named arguments.

        Arguments that are None are left out. Raises ClusterError if the action is not possible or
        fails.
        """
        raise NotImplementedError

    # <!-- generated: actions -->
    def kill(self, brokers: Brokers) -> None:
        """Kill a broker as kill -9 does: its session stays until ZooKeeper expires it."""
        self.act("kill", brokers)

    def start(self, brokers: Brokers) -> None:
        """Start a broker again. It registers once the session of its previous process has
        expired."""
        self.act("start", brokers)

    def stop(self, brokers: Brokers) -> None:
        """Stop a broker with a controlled shutdown: the controller first elects other leaders."""
        self.act("stop", brokers)

    def power_off(self, brokers: Brokers) -> None:
        """Power off the machine of a broker, so that the broker's unflushed data is lost. The
        data is lost from a randomly chosen offset onward."""
        self.act("power_off", brokers)

    def pause(self, brokers: Brokers) -> None:
        """Freeze a broker, its controller and its heartbeats, as a long garbage collection does."""
        self.act("pause", brokers)

    def resume(self, brokers: Brokers) -> None:
        """Resume a paused broker."""
        self.act("resume", brokers)

    def bounce_registration(self, brokers: Brokers) -> None:
        """Delete a broker's registration and create it again at once, with the same data. The
        new znode is owned by the drill's session, so it remains when the broker's session
        expires."""
        self.act("bounce_registration", brokers)

    @_by_name
    def fail_log_dir(
        self,
        *,
        broker: int | str,
        log_dir: str,
    ) -> None:
        """Make a log directory of a broker fail: the replicas in it go offline. `log_dir`: One
        of the broker's log.dirs."""

    @_by_name
    def fail_disk(
        self,
        *,
        kind: Literal["enospc", "eio", "short-write", "fsync"],
        broker: int | str | None = None,
        log_dir: str | None = None,
        journal: bool | None = None,
        after_bytes: int | None = None,
        times: int | None = None,
    ) -> None:
        """Make the disk of a broker's log directories, or of the journal, fail until the disks
        are healed. A log directory goes offline at the next operation that fails, or at once if
        its logs are in memory (without segments). `kind`: How the disk fails: it is full
        (`enospc`), every operation fails (`eio`), only a part of each write reaches the file
        (`short-write`), or every fsync fails and a part of the unsynced data is lost (`fsync`).
        `log_dir`: One of the broker's log.dirs; by default, all of them. `journal`: Make the
        disk that holds the journal fail. `after_bytes`: Bytes that can still be written before
        the fault. `times`: Number of failures after which the fault ends; by default, no limit."""

    @_by_name
    def slow_disk(
        self,
        *,
        broker: int | str,
        bytes_per_s: int,
        log_dir: str | None = None,
    ) -> None:
        """Limit how fast replicas are copied to and from a broker's log directories. A follower
        that cannot keep up leaves the ISR after replica.lag.time.max.ms. `bytes_per_s`: Maximum
        rate in bytes/s. `log_dir`: One of the broker's log.dirs; by default, all of them."""

    def heal_disks(self) -> None:
        """End all disk faults. A failed log directory stays offline until its broker is
        restarted."""
        self.act("heal_disks")

    @_by_name
    def cut(
        self,
        *,
        from_: Brokers | None = None,
        to: Brokers | None = None,
        between: Sequence[Brokers] | None = None,
        only: Literal["records", "control"] | None = None,
    ) -> None:
        """Cut network links: messages are lost until the network is healed. A broker stands for
        its machine, with its controller. `from` and `to` cut the links in one direction,
        `between` splits two or more groups from each other. Parties are brokers, `others` (all
        brokers that are not named), `clients` and `zookeeper`; a group is a list of parties
        (drills and Python also take a party without brackets). `only`: Which messages: `records`
        (Fetch and Produce) or `control` (requests of controllers to brokers and of brokers to
        controllers); by default, all."""

    @_by_name
    def clog(
        self,
        *,
        from_: Brokers | None = None,
        to: Brokers | None = None,
        between: Sequence[Brokers] | None = None,
        only: Literal["records", "control"] | None = None,
    ) -> None:
        """Hold messages of links; deliver them in order when the network is healed. Not for
        links with ZooKeeper. The links are given as for `cut`. `only`: Which messages: `records`
        (Fetch and Produce) or `control` (requests of controllers to brokers and of brokers to
        controllers); by default, all."""

    @_by_name
    def delay(
        self,
        *,
        ms: int,
        from_: Brokers | None = None,
        to: Brokers | None = None,
        between: Sequence[Brokers] | None = None,
        only: Literal["records", "control"] | None = None,
    ) -> None:
        """Deliver the messages of network links later, in order. Delays of the same link add up.
        Links with ZooKeeper: simulated only. The links are given as for `cut`. From ZooKeeper,
        replies and watch events are late. `only`: Which messages: `records` (Fetch and Produce)
        or `control` (requests of controllers to brokers and of brokers to controllers); by
        default, all. `ms`: Delay in milliseconds."""

    @_by_name
    def fail_requests(
        self,
        *,
        api: str | None = None,
        client: str | None = None,
        broker: int | str | None = None,
        error: str | None = None,
        drop: bool | None = None,
        cut: bool | None = None,
        delay_ms: int | None = None,
        times: int | None = None,
    ) -> None:
        """Let requests of clients fail: give one of `error`, `drop`, `cut` and `delay_ms`. By
        default, requests to all brokers fail. `api`: Kafka's name of an API, e.g. Fetch; by
        default, all. `client`: Client id of one of Kafka's own clients; by default, all clients.
        `error`: Refuse requests with this error, e.g. NOT_LEADER_OR_FOLLOWER (all: see
        https://kafka.apache.org/28/protocol.html), so that they have no other effect. `drop`:
        Lose requests. `cut`: Lose requests, and break their connections. `delay_ms`: Delay in
        milliseconds. `times`: Number of failures after which the fault ends; by default, no
        limit."""

    @_by_name
    def lag_zookeeper(
        self,
        *,
        broker: int | str,
        ms: int,
    ) -> None:
        """Let a broker read from a ZooKeeper follower that applies each transaction later than
        the leader, until the network is healed. What a broker reads never goes back; it gets a
        watch event before it reads the change, and it sees its own writes at once. Simulated
        only. `ms`: Delay in milliseconds."""

    @_by_name
    def skew_clock(
        self,
        *,
        broker: int | str,
        ms: int,
    ) -> None:
        """Set the time of day on a broker's machine forward or back. Its timers are not
        affected. `ms`: Milliseconds; negative: back. 0 ends the skew."""

    @_by_name
    def degrade_network(
        self,
        *,
        from_: Brokers | None = None,
        to: Brokers | None = None,
        between: Sequence[Brokers] | None = None,
        only: Literal["records", "control"] | None = None,
        loss: float | None = None,
        repetition: float | None = None,
        reordering: float | None = None,
    ) -> None:
        """Lose, repeat and reorder messages of network links. By default, all messages that
        carry records are affected. On connections of clients, a loss breaks the connection, and
        nothing is repeated or reordered. Replaces the rates of an earlier degradation. The links
        are given as for `cut`. `only`: Which messages: `records` (Fetch and Produce) or
        `control` (requests of controllers to brokers and of brokers to controllers); by default,
        all. `loss`, `repetition`, `reordering`: Probability, from 0 to 1."""

    def isolate(self, brokers: Brokers) -> None:
        """Isolate brokers: stop replication between them and all other brokers. ZooKeeper, the
        controller and clients still reach all brokers. Replaces any earlier isolation. The same
        as `cut: {between: [[2], [others]], only: records}`."""
        self.act("isolate", brokers)

    def heal_network(self) -> None:
        """End all faults of the network and of requests, and deliver the messages on clogged
        links."""
        self.act("heal_network")

    def move_controller(self) -> None:
        """Delete /controller to force a controller election; the same broker may win again."""
        self.act("move_controller")

    def kill_all(self) -> None:
        """Kill the process of the whole cluster, as kill -9 of `klamm up` does. ZooKeeper, files
        and the drill's clients survive; logs in memory are lost (use `segments: true`)."""
        self.act("kill_all")

    def up_again(self) -> None:
        """Restart the whole cluster with the same data and seed: first all brokers, and once
        they are registered, the controllers."""
        self.act("up_again")

    def kill_zookeeper(self, server: int | str) -> None:
        """Kill a ZooKeeper server (leader, follower or an id); it stays down until it is
        started. Real only."""
        self.act("kill_zookeeper", server)

    def start_zookeeper(self, server: int | str) -> None:
        """Start a killed ZooKeeper server with its existing data. Real only."""
        self.act("start_zookeeper", server)

    def pause_zookeeper(self, server: int | str) -> None:
        """Freeze a ZooKeeper server: its connections stay open, but it does not respond. Real
        only."""
        self.act("pause_zookeeper", server)

    def resume_zookeeper(self, server: int | str) -> None:
        """Resume a frozen ZooKeeper server. Real only."""
        self.act("resume_zookeeper", server)

    def lose_quorum(self) -> None:
        """Kill ZooKeeper servers, leader first, until the quorum is lost. Real only."""
        self.act("lose_quorum")

    def regain_quorum(self) -> None:
        """Start or resume all ZooKeeper servers; wait for a leader. Real only."""
        self.act("regain_quorum")

    def reassign(self, replicas: Mapping[str, Sequence[int]]) -> None:
        """Ask the controller to move partitions to other replicas."""
        self.act("reassign", replicas)

    def cancel_reassignment(self, partitions: Words) -> None:
        """Ask the controller to cancel reassignments of partitions."""
        self.act("cancel_reassignment", partitions)

    def elect_preferred(self, partitions: Words) -> None:
        """Ask the controller to elect the preferred (first) replicas of partitions as leaders."""
        self.act("elect_preferred", partitions)

    def elect_unclean(self, partitions: Words) -> None:
        """Ask the controller to elect any live replica of partitions that have no leader."""
        self.act("elect_unclean", partitions)

    def produce(self, records: Mapping[str, int]) -> None:
        """Queue this number of records in the drill's producer (idempotent, acks=all). It sends
        them while the next steps run, and a consumer reads them. At the end of the drill the
        consumer must have read every acknowledged record once and in order."""
        self.act("produce", records)

    def produce_constantly(self, records_per_s: Mapping[str, float]) -> None:
        """Produce to partitions (acks=all) at this constant rate in records per second until the
        drill ends. While the cluster is stable this needs no messages, so that long simulations
        are fast. At the end no acknowledged record may be lost. Simulated only."""
        self.act("produce_constantly", records_per_s)

    def create_znode(self, znodes: Mapping[str, Value]) -> None:
        """Create znodes manually. Text is written unchanged, null as no data, other values as
        JSON."""
        self.act("create_znode", znodes)

    def set_znode(self, znodes: Mapping[str, Value]) -> None:
        """Overwrite znodes manually, regardless of their versions."""
        self.act("set_znode", znodes)

    def delete_znode(self, paths: Words) -> None:
        """Delete znodes manually, regardless of their versions."""
        self.act("delete_znode", paths)

    def set_topic_partitions(self, replicas: Mapping[str, Sequence[int]]) -> None:
        """Write partitions of a topic's znode manually: new ones, which the controller creates,
        or other replicas of existing ones, which it replaces by the old ones (`--quirks
        KAFKA-12493`: which the next controller takes over)."""
        self.act("set_topic_partitions", replicas)

    def preload(self, sizes: Mapping[str, str]) -> None:
        """Add this amount of data to all replicas of partitions, in records of 1000 bytes, as if
        it had been produced long ago. Not possible after a step has produced to the partitions."""
        self.act("preload", sizes)

    def expire_session(self, brokers: Brokers) -> None:
        """Expire the ZooKeeper sessions of brokers and their controllers. Simulated only."""
        self.act("expire_session", brokers)

    def fail_authentication(self, brokers: Brokers) -> None:
        """Notify brokers and their controllers of a failed authentication with ZooKeeper, while
        their sessions stay alive. Simulated only."""
        self.act("fail_authentication", brokers)

    def lose_request(self, brokers: Brokers) -> None:
        """Break the ZooKeeper connection of brokers at their next write, which is lost.
        Simulated only."""
        self.act("lose_request", brokers)

    def lose_reply(self, brokers: Brokers) -> None:
        """Break the ZooKeeper connection of brokers when their next write has succeeded, so that
        its reply is lost. Simulated only."""
        self.act("lose_reply", brokers)

    def heal_all(self) -> None:
        """End every fault: heal network and disks, resume paused brokers, start brokers that are
        not running, and restart brokers with a failed log directory."""
        self.act("heal_all")

    def advance(self, steps: int) -> None:
        """Run this number of simulation steps. A simulation step runs a broker or controller up
        to its next ZooKeeper operation, delivers messages, or advances the clock. The next step
        of the drill can therefore begin while work is in progress. Simulated only."""
        self.act("advance", steps)

    def wait(self, duration: str) -> None:
        """Wait for a duration in ms, s or min."""
        self.act("wait", duration)

    # <!-- end -->
