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
    brokers: Sequence[int]
    """Exactly these brokers are registered in /brokers/ids."""
    unregistered: Brokers
    """These brokers are not registered in /brokers/ids: ids, `rack a` or `each`."""
    leader: Mapping[str, int | str]
    """The leaders in the partition state znodes."""
    isr: Mapping[str, Sequence[int]]
    """The ISRs in the partition state znodes, in any order."""
    leader_epoch: Mapping[str, int]
    """The leader epochs in the partition state znodes."""
    replicas: Mapping[str, Sequence[int]]
    """The replicas in the topic znode, in this order."""
    partition_state: Mapping[str, str]
    """The states of partitions, as known to the active controller."""
    hosts: Mapping[int, Sequence[str]]
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
    reassigning: Sequence[str]
    """Exactly these partitions are being reassigned. `[]` means that no partition is."""
    not_reassigning: Words
    """No partition of these topics is being reassigned."""
    journal: Mapping[str, Value]
    """A row of the journal with these values was written since the step began."""
    healthy: bool
    """Every broker of the cluster is running and registered, every partition has a leader and
    all its replicas in sync, and no reassignment, deletion or election request is pending."""
    agrees: Value
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
        """Kill brokers. ZooKeeper removes their registrations when their sessions expire."""
        self.act("kill", brokers)

    def start(self, brokers: Brokers) -> None:
        """Start brokers. Each registers once the session of its previous process has expired."""
        self.act("start", brokers)

    def stop(self, brokers: Brokers) -> None:
        """Controlled shutdown: the controller moves leadership away from brokers before they
        stop."""
        self.act("stop", brokers)

    def power_off(self, brokers: Brokers) -> None:
        """Kill brokers and cut the power of their machines: data that their logs had not flushed
        is lost from a randomly chosen offset onward."""
        self.act("power_off", brokers)

    def pause(self, brokers: Brokers) -> None:
        """Freeze brokers and their controllers, as in a long garbage collection pause: they send
        no heartbeats."""
        self.act("pause", brokers)

    def resume(self, brokers: Brokers) -> None:
        """Resume paused brokers."""
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
        """Make a log directory of a broker fail. The directory must be listed in log.dirs."""

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
        """Inject a disk fault into a broker's log directory (by default, into all of them), or,
        with `journal: true`, into the journal. `kind` is `enospc` (the disk is full), `eio`
        (every operation fails), `short-write` (only part of a write reaches the file) or `fsync`
        (fsync fails, and part of the unsynced data is lost). `after_bytes`: bytes written before
        the fault starts. `times`: number of failures before the disk works again. In-memory logs
        fail at once."""

    @_by_name
    def slow_disk(
        self,
        *,
        broker: int | str,
        bytes_per_s: int,
        log_dir: str | None = None,
    ) -> None:
        """Limit the rate of replica copies to and from a broker's log directory (by default, all
        of them)."""

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
        """Cut network links: messages are lost. `from` and `to` cut them in one direction,
        `between` splits two or more groups from each other. Parties are brokers, `others` (all
        brokers that are not named), `clients` and `zookeeper`; a group is a list of parties
        (drills and Python also take a party without brackets). A broker stands for its machine,
        with its controller. `only: records` cuts Fetch and Produce, `only: control` the requests
        of controllers to brokers and of brokers to controllers."""

    @_by_name
    def clog(
        self,
        *,
        from_: Brokers | None = None,
        to: Brokers | None = None,
        between: Sequence[Brokers] | None = None,
        only: Literal["records", "control"] | None = None,
    ) -> None:
        """Clog network links, given as for `cut`: messages are held, and delivered in order when
        the network is healed. Not for links with ZooKeeper."""

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
        """Deliver the messages of network links, given as for `cut`, later by `ms` milliseconds,
        in order. Delays of the same link add up. From ZooKeeper, replies and watch events are
        late. Links with ZooKeeper: simulated only."""

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
        """Let requests of clients fail: those of an `api`, of a `client` (a client id, which
        only Kafka's own clients have) and to a `broker`; by default, of and to all. They are
        refused with an `error`, such as NOT_LEADER_OR_FOLLOWER, and have no other effect; or
        they are lost (`drop`), or lost with their connection (`cut`), or reach the broker later
        by `delay_ms`. `times`: number of requests that fail; by default all, until
        `heal_network`."""

    @_by_name
    def lag_zookeeper(
        self,
        *,
        broker: int | str,
        ms: int,
    ) -> None:
        """Let brokers read from a ZooKeeper follower that applies each transaction `ms`
        milliseconds later than the leader, until `heal_network`. What a broker reads never goes
        back; it gets a watch event before it reads the change, and it sees its own writes at
        once. Simulated only."""

    @_by_name
    def skew_clock(
        self,
        *,
        broker: int | str,
        ms: int,
    ) -> None:
        """Set the time of day on brokers' machines forward by `ms` milliseconds (back, if
        negative), until `heal_all`. Timers, which use monotonic time, are not affected."""

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
        """Lose, repeat and reorder messages of network links, with these probabilities (0 to 1).
        The links are given as for `cut`; without any, all messages that carry records are
        affected. On connections of clients, a loss breaks the connection, and nothing is
        repeated or reordered. Replaces any earlier `degrade_network`."""

    def isolate(self, brokers: Brokers) -> None:
        """Isolate these brokers: they and the others replicate no records from each other.
        ZooKeeper, the controller and clients still reach all brokers. Replaces any earlier
        isolation. The same as `cut: {between: [[2], [others]], only: records}`."""
        self.act("isolate", brokers)

    def heal_network(self) -> None:
        """End all faults of the network and of requests, and deliver the messages on clogged
        links."""
        self.act("heal_network")

    def move_controller(self) -> None:
        """Delete /controller, so that a new controller is elected."""
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
