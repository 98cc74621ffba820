"""The known bugs of Kafka's controller, and the drill that shows each of them.

Bugs that 2.8.2 has are reproduced by a quirk, other bugs in tests by a mutant (tests/bugs/).
docs/bugs.md is generated from this table and from the runs of the drills.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MISDIRECTED_ALTER_ISR: Final = "misdirected AlterIsr"
"""A mutant that is no bug, but a fault that a drill cannot inject."""


class Present(NamedTuple):
    """A bug that 2.8.2 has; the quirk of the same name reproduces it.

    ``own_drill``: the name of its drill, if that is not the bug's. ``also``: further tickets of the
    same bug. ``given``: a mutant that is no bug, with which the drill runs both without and with
    the bug."""

    name: str
    own_drill: str | None = None
    also: tuple[str, ...] = ()
    given: str | None = None

    @property
    def drill(self) -> str:
        """The name of the drill that shows the bug."""
        return self.own_drill or self.name.lower()


class Fixed(NamedTuple):
    """A bug that 2.8.2 has not, or that klamm has no quirk for; the mutant of this name plants it.

    ``since``: the first versions with the fix. ``wrong``: what Kafka did. ``right``: what it should
    do. The other fields: as in Present."""

    name: str
    since: str
    wrong: str
    right: str
    own_drill: str | None = None
    also: tuple[str, ...] = ()
    given: str | None = None

    @property
    def drill(self) -> str:
        """The name of the drill that shows the bug."""
        return self.own_drill or self.name.lower()


PRESENT: Final = (
    Present("KAFKA-8249", "delete-while-reassigning"),
    Present("KAFKA-9087"),
    Present("KAFKA-9478", "reassignment-added-to-a-running-one"),
    Present("KAFKA-10149"),
    Present("KAFKA-12315"),
    Present("KAFKA-12493"),
    Present("KAFKA-13091"),
    Present("KAFKA-13225", "idle-broker-dies"),
    Present("KAFKA-13461", also=("KAFKA-13407",)),
    Present("KAFKA-13572"),
    Present("KAFKA-13972", "reassign-cancel"),
    Present("KAFKA-14140"),
    Present("KAFKA-14154", given=MISDIRECTED_ALTER_ISR),
    Present("KAFKA-14424", "cancel-back-to-the-dead"),
    Present("KAFKA-14808", "reassign-override-drops-leader"),
    Present("KAFKA-15608"),
    Present("CMAK-878", also=("KAFKA-12835",)),
    Present("C1"),
    Present("C2"),
    Present("C4"),
    Present("C5"),
    Present("C6"),
    Present("C7"),
    Present("C8"),
    Present("C9"),
    Present("C10"),
    Present("C11"),
)

FIXED: Final = (
    Fixed(
        "KAFKA-708",
        "0.8.0, 1.1.0",
        "When the last replica of an ISR goes offline, the ISR becomes empty.",
        "The partition has no leader, and the last replica stays in the ISR.",
        also=("KAFKA-5083",),
    ),
    Fixed(
        "KAFKA-1096",
        "0.8.2.0",
        "A controller that was deposed while it was frozen adopts the epoch of its successor.",
        "A controller gets its epoch only by winning an election.",
    ),
    Fixed(
        "KAFKA-1188",
        "0.8.2.0",
        "When a follower dies, only the leader is sent the smaller ISR.",
        "All remaining replicas are sent the new leader epoch.",
    ),
    Fixed(
        "KAFKA-2729",
        "0.8.2.0",
        "If the reply to a leader's ISR write is lost, its cached version of the znode stays "
        "wrong, and the ISR never changes again.",
        "The leader reads the znode again, and adopts the version if it finds what it wrote.",
        also=("KAFKA-1382",),
    ),
    Fixed(
        "KAFKA-3143",
        "2.3.0",
        "A new controller sends no metadata of partitions whose replicas are all offline.",
        "It sends them without a leader.",
    ),
    Fixed(
        "KAFKA-3175",
        "0.10.2.0",
        "With delete.topic.enable=false, a topic in /admin/delete_topics counts as being deleted: "
        "it gets no new leaders.",
        "The request is removed, and the topic is served.",
    ),
    Fixed(
        "KAFKA-4214",
        "0.10.1.0",
        "A reassignment is lost if its target is dead when a new controller starts.",
        "It stays pending, and completes when the target joins the ISR.",
    ),
    Fixed(
        "KAFKA-4229",
        "0.10.2.0",
        "If /controller of an earlier session still exists after the session has expired, no "
        "controller is elected when it disappears.",
        "Eventually exactly one controller is active.",
    ),
    Fixed(
        "KAFKA-4443",
        "0.10.2.0",
        "A new controller sends LeaderAndIsr before brokers know which brokers are alive.",
        "UpdateMetadata with the live brokers comes first.",
    ),
    Fixed(
        "KAFKA-4447",
        "0.10.2.0",
        "Notifications that are queued when a controller resigns are processed as if it were still "
        "the controller.",
        "Every event is checked when it is processed.",
    ),
    Fixed(
        "KAFKA-5310",
        "0.11.0.0",
        "A controller that resigned and is elected again resumes reassignments from its memory.",
        "A resignation clears the memory, and an election loads everything from ZooKeeper.",
    ),
    Fixed(
        "KAFKA-5502",
        "0.11.0.0",
        "The controller works with the list of brokers from when a notification was queued.",
        "It reads the brokers when it processes the notification.",
        also=("KAFKA-3085",),
    ),
    Fixed(
        "KAFKA-5879",
        "1.1.0",
        "ISR change notifications are not read and deleted from the same list, so that some of "
        "them have no effect.",
        "Exactly the notifications that were read are deleted.",
    ),
    Fixed(
        "KAFKA-6082",
        "2.1.0",
        "A deposed controller can still write to ZooKeeper.",
        "Every write checks the version of /controller_epoch.",
    ),
    Fixed(
        "KAFKA-6146",
        "1.1.0",
        "A preferred leader election that is requested while another one ends is lost.",
        "After the deletion of the znode, the controller looks again and arms the watch.",
    ),
    Fixed(
        "KAFKA-6193",
        "1.1.0",
        "/admin/reassign_partitions is deleted when the first of its partitions is complete.",
        "It is deleted when no entry is pending.",
    ),
    Fixed(
        "KAFKA-6526",
        "2.0.0, 2.1.0",
        "Enabling unclean leader election has no effect before the controller moves.",
        "Partitions without a leader get one at once.",
        also=("KAFKA-6835",),
    ),
    Fixed(
        "KAFKA-6612",
        "2.0.0",
        "Partitions that are added to a topic during its deletion are created, and the topic is "
        "never deleted.",
        "The assignment is restored, and the deletion completes.",
        "partitions-added-while-deleting",
    ),
    Fixed(
        "KAFKA-6650",
        "2.0.0",
        "The deletion of a topic is stuck if a partition has no state znode.",
        "The deletion completes.",
    ),
    Fixed(
        "KAFKA-6879",
        "1.1.1, 2.0.0",
        "If a session expires while the controller is inside a ZooKeeper call, the controller's "
        "thread and the ZooKeeper client's thread wait for each other.",
        "The event ends with an error, and the controller is elected again.",
        also=("KAFKA-6517",),
    ),
    Fixed(
        "KAFKA-7165",
        "0.9.0.0, 2.2.0; KAFKA-14845 is open",
        "A broker whose id is still registered by another session gives up, and is missing until "
        "it is restarted.",
        "It replaces a registration of its own earlier session, and otherwise tries again.",
        also=("KAFKA-1387", "KAFKA-14845"),
    ),
    Fixed(
        "KAFKA-7235",
        "2.2.0",
        "A broker that restarts before the controller has noticed its death is sent nothing.",
        "The controller compares broker epochs: a new one means a failure and a startup.",
    ),
    Fixed(
        "KAFKA-7482",
        "2.1.0",
        "A leader that shuts down is not told that another broker leads.",
        "LeaderAndIsr is also sent to brokers that shut down.",
    ),
    Fixed(
        "KAFKA-9089",
        "2.4.0",
        "A reassignment in ZooKeeper that was overridden comes back with the next controller.",
        "The override removes the entry in ZooKeeper.",
    ),
    Fixed(
        "KAFKA-9212",
        "2.4.0",
        "The leader epoch that a reassignment increments is missing in the controller's memory, "
        "and in UpdateMetadata.",
        "Requests have the epoch that is in ZooKeeper.",
    ),
    Fixed(
        "KAFKA-9539",
        "2.6.0",
        "StopReplica has no leader epoch: a request that arrives late stops a valid replica.",
        "A broker rejects StopReplica with an old leader epoch.",
    ),
    Fixed(
        "KAFKA-9946",
        "2.6.0",
        "The response to a StopReplica request that does not delete counts as a deletion.",
        "Only responses to requests that delete count.",
    ),
    Fixed(
        "KAFKA-10193",
        "2.7.0",
        "Requests that are queued when the session expires get no response.",
        "They get NOT_CONTROLLER.",
    ),
    Fixed(
        "KAFKA-10314",
        "2.7.0",
        "A broker with a failed log directory does not create a replica that is reassigned to it.",
        "LeaderAndIsr marks added replicas as new.",
    ),
    Fixed(
        "KAFKA-12751",
        "2.7.2, 2.8.1, 3.0.0",
        "An ISR proposal that is outdated by a LeaderAndIsr request stays pending, so that the ISR "
        "never changes again.",
        "The leader drops the proposal, and makes a new one.",
        also=("KAFKA-12686",),
    ),
    Fixed(
        "KAFKA-14144",
        "3.3.0",
        "If the response to an AlterIsr request is lost, the repeated request is rejected with "
        "INVALID_UPDATE_VERSION. 2.8.2 does not have this bug yet.",
        "The controller finds the proposed ISR in ZooKeeper, and responds with its version.",
    ),
    Fixed(
        "PR-4670",
        "2.0.0",
        "No watch is armed on the registration of a broker, so that changed end points are missed.",
        "The controller reads the registration when it begins to watch it.",
    ),
    Fixed(
        "PR-7334",
        "2.4.0",
        "A new controller takes the replicas that a reassignment adds for those that it removes.",
        "Both lists are read from the topic znode.",
    ),
    Fixed(
        "KAFKA-10548",
        "never",
        "The deletion of a topic waits for a broker that died, without a limit; so it must "
        "continue when the broker is back. The mutant forgets that.",
        "The deletion completes when the broker is back.",
    ),
    Fixed(
        "C3",
        "never present",
        "A controller that dies between the three writes that create a partition leaves an "
        "incomplete tree. The mutant does not complete it.",
        "The next controller completes it.",
    ),
)

OWN: Final = (
    Fixed(
        "K1",
        "0.1.0",
        "An override of a reassignment that also removes a replica outside the ISR, and completes "
        "at once, sends that replica's broker LeaderAndIsr and StopReplica with the same leader "
        "epoch. The broker rejects StopReplica and keeps the replica.",
        "The leader epoch is incremented once more before the replica is removed.",
    ),
    Fixed(
        "K2",
        "0.1.0",
        "The check of consumed records reports a duplicate if a consumer has read records whose "
        "outcome the producer does not know yet.",
        "These records count as possibly stored.",
    ),
    Fixed(
        "K3",
        "0.1.0",
        "The invariant leader-completeness reports records as missing if a deposed leader "
        "acknowledges them after the next leader has acknowledged them and later records.",
        "Records that are acknowledged twice are checked once.",
    ),
    Fixed(
        "K4",
        "0.1.0",
        "If the session of a registered broker expires before its controller is a candidate, "
        "the broker stays unregistered: neither the broker nor its controller handles the expiry.",
        "The broker registers again itself, or passes the expiry to its controller.",
    ),
    Fixed(
        "K5",
        "0.1.0",
        "The records that a drill's producer sends to segment logs have no timestamps. Each "
        "retention check makes the leader forget the producer, so that the leader appends a batch "
        "again if the producer resends it.",
        "The records have the time at which they are sent.",
    ),
    Fixed(
        "K6",
        "0.1.0",
        "If leaders write ISRs themselves, the controller decides on the ISR in its memory, which "
        "lacks a follower until the leader notifies it. It elects no leader, or leaves a dead "
        "broker in the ISR.",
        "A decision after which nothing is written is made again after reading ZooKeeper.",
    ),
    Fixed(
        "K7",
        "0.1.0",
        "The invariant deletion-waits-for-replicas reports a partition that was added to a topic "
        "just before the deletion of the topic ended, although it never had replicas.",
        "Only partitions that have had a state are expected to have replicas.",
    ),
    Fixed(
        "K8",
        "0.1.0",
        "If the session in which a broker registers again expires, too, the broker fails with "
        "SessionExpired, although it registers in the following session.",
        "The broker waits for the following session.",
    ),
    Fixed(
        "K9",
        "0.1.0",
        "The check of consumed records reports a duplicate if a leader is deposed after it has "
        "appended records, and answers NOT_LEADER_OR_FOLLOWER.",
        "Records with an offset in the response count as possibly stored.",
    ),
    Fixed(
        "K10",
        "0.1.0",
        "If another tool changes the replicas in a topic znode and the controller dies before it "
        "restores them, the next controller adopts them without moving data. If no new replica is "
        "in the ISR, the partition never has a leader again.",
        "The next controller adopts them as a reassignment.",
    ),
    Fixed(
        "K11",
        "0.1.0",
        "The check of admin operations reports a topic as impossible if, of two partitions that "
        "tools added, only the second disappears because the controller overwrites the znode.",
        "Any number of the last partitions that the controller has not noticed may disappear.",
    ),
    Fixed(
        "K12",
        "0.1.0",
        "The condition `healthy` and the invariants fail with an internal error if the partitions "
        "in a topic znode are not a mapping.",
        "Such a znode counts as malformed, as in the controller.",
    ),
    Fixed(
        "K13",
        "0.1.0",
        "If the disk of a broker fails when the whole cluster restarts, no controller is elected, "
        "not even after the broker is repaired: all brokers wait for each other.",
        "After a time limit, the other brokers' controllers become candidates.",
    ),
    Fixed(
        "K14",
        "0.1.0",
        "A new controller that finds all target replicas of a reassignment in the ISR, although "
        "one of their brokers is dead, considers that replica online. 2.8.2 does so, too.",
        "Only replicas on live brokers become OnlineReplica.",
    ),
    Fixed(
        "K15",
        "0.1.0",
        "If leaders write ISRs themselves and one reassignment overrides another, a new replica "
        "may be in sync before the controller moves it to NewReplica. It stays in state "
        "NonExistentReplica, and in the ISR when it is removed later. 2.8.2 does so, too.",
        "Added replicas become NewReplica before OnlineReplica.",
    ),
    Fixed(
        "K16",
        "0.1.0",
        "A restart of the whole cluster that finds a running broker has already started brokers "
        "whose controllers then never become candidates, so that no controller is elected.",
        "It fails before it starts a broker.",
    ),
    Fixed(
        "K17",
        "0.1.0",
        "If the controller refuses to add a follower to the ISR, the high watermark, which waited "
        "for the follower, does not advance before the next fetch. 2.8.2 does so, too "
        "(KAFKA-13091).",
        "The high watermark advances when the proposal is dropped.",
    ),
)
"""Bugs of klamm itself, found by klamm hunt."""
