"""A broker's part in constant rates: the messages about laws, coming and going.

Hands each to the leaders or followers that it concerns and collects what these want to say. Sends
nothing. What a law is, and why nobody is ever ahead of the truth, is said in
cluster/constant_rate.py.
"""

from __future__ import annotations

from brokers.followers.growing_followers import GrowingFollowers
from brokers.leaders.leader_replicas import LeaderReplicas
from brokers.partitions.growth import FollowerGrowth, LeaderGrowth
from brokers.partitions.partition import Partition
from brokers.partitions.settling import settle
from brokers.replica_manager import ReplicaManager
from cluster.constant_rate import ConstantRateRequest, ConstantRateResponse, EndOfLaw
from cluster.data_requests import FetchResponse
from cluster.requests import Address, Disconnected, Message
from cluster.types import TopicPartition

LawMessage = ConstantRateResponse | FetchResponse | EndOfLaw


class Laws:
    """The laws that one broker's replicas go by."""

    def __init__(self, replicas: ReplicaManager, followers: GrowingFollowers) -> None:
        self._replicas = replicas
        self._leaders: LeaderReplicas = replicas.leaders
        self._followers = followers

    @staticmethod
    def takes(message: Message) -> bool:
        """True for messages about laws."""
        return isinstance(message.body, ConstantRateRequest | EndOfLaw | Disconnected)

    def handle(self, message: Message, now_ms: float) -> None:
        """Take a message; ``now_ms`` is monotonic."""
        match message.body:
            case ConstantRateRequest() as request:
                self._leaders.take_rates(message.source, request, now_ms)
            case EndOfLaw(partitions):
                for tp, leader_epoch in partitions.items():
                    partition = self._replicas.partitions.get(tp)
                    if partition is not None and partition.leader_epoch == leader_epoch:
                        self._leaders.leave_law(tp, partition, message.source.id, now_ms)
            case Disconnected():
                self.on_disconnected(message.source, now_ms)

    def on_disconnected(self, address: Address, now_ms: float) -> None:
        """Nothing more comes from there: what was agreed on with it ends as it is now."""
        is_broker = address.role == "broker"
        for tp, partition in self._replicas.partitions.items():
            growth = partition.growth
            if isinstance(growth, FollowerGrowth):
                if is_broker and partition.is_leader(address.id):
                    settle(partition, now_ms)
                    partition.growth = None
            elif growth is not None and growth.producer == address:
                self._leaders.stop_law(tp, partition, now_ms)
            elif growth is not None and is_broker:
                self._leaders.leave_law(tp, partition, address.id, now_ms)

    def end_all(self, now_ms: float) -> None:
        """This broker is about to stand still, cut off from all others."""
        for tp, partition in self._replicas.partitions.items():
            match partition.growth:
                case LeaderGrowth(followers=followers):
                    for replica_id in followers:
                        self._leaders.leave_law(tp, partition, replica_id, now_ms)
                    self._leaders.stop_law(tp, partition, now_ms)
                case FollowerGrowth():
                    settle(partition, now_ms)
                    partition.growth = None

    def settle_all(self, now_ms: float) -> None:
        """Bring all that grows up to now: for who looks at everything."""
        for tp, partition in self._replicas.partitions.items():
            self.settle(tp, partition, now_ms)

    def settle(self, tp: TopicPartition, partition: Partition, now_ms: float) -> None:
        """Bring one partition up to now, if it grows."""
        if isinstance(partition.growth, LeaderGrowth):
            self._leaders.growing.settle(tp, partition)
        elif partition.growth is not None:
            settle(partition, now_ms)

    def end_following(self, now_ms: float) -> None:
        """Go by no leader's law any more."""
        for tp, partition in self._replicas.partitions.items():
            self._followers.end(tp, partition, now_ms)

    def take_messages(self, now_ms: float) -> list[tuple[Address, LawMessage]]:
        """What followers, leaders and producers are to be told without having asked, what is said
        of laws first; from now on nothing."""
        self._leaders.review_laws(now_ms)
        growing = self._leaders.growing
        farewells = growing.take_farewells()
        for replica_id, answers in farewells.items():
            for tp in answers:
                self._leaders.expect_fetch(tp, replica_id, now_ms)
        return [
            *(
                (Address("broker", replica_id), FetchResponse(answers, is_standing=True))
                for replica_id, answers in farewells.items()
            ),
            *(
                (producer, ConstantRateResponse(answers))
                for producer, answers in growing.take_answers().items()
            ),
            *(
                (Address("broker", leader), EndOfLaw(ended))
                for leader, ended in self._followers.take_ended().items()
            ),
            *(
                (Address("broker", replica_id), answer)
                for replica_id, answer in self._leaders.take_standing_answers(now_ms)
            ),
        ]
