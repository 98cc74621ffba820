"""Configs that changed while brokers run: unclean elections are allowed from now on.

Who follows the configs is the broker of the same process; here is what the controller makes of it.
Mirrors processUncleanLeaderElectionEnable and processTopicUncleanLeaderElectionEnable of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.events import TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController


def process_unclean_leader_election_enable(
    controller: KafkaController, _: UncleanLeaderElectionEnable
) -> None:
    """Unclean elections are the default now: try all partitions that wait for a leader."""
    controller.log.info("Unclean leader election has been enabled by default")
    controller.partition_state_machine.trigger_online_partition_state_change()


def process_topic_unclean_leader_election_enable(
    controller: KafkaController, event: TopicUncleanLeaderElectionEnable
) -> None:
    """A topic allows unclean elections now: try its partitions that wait for a leader."""
    controller.log.info(f"Unclean leader election has been enabled for topic {event.topic}")
    controller.partition_state_machine.trigger_online_partition_state_change(event.topic)
