"""Notices that brokers leave for the controller: numbered children of a znode, deleted once read.

Which notices there are is asked when the event is processed, and exactly those are deleted
(KAFKA-5879): one that comes meanwhile fires the watch again. What a notice means is not known here.
Mirrors the deletion of notifications in kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from zk.znodes import MalformedZNode

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController


class Notices(NamedTuple):
    """Where notices of a kind are, and how their names begin."""

    path: str
    prefix: str


def names_of(controller: KafkaController, notices: Notices) -> list[str]:
    """The children there are now, sorted, whoever made them; arms the child watch."""
    return controller.zk.get_children(notices.path, watch=True)


def numbers_of(controller: KafkaController, notices: Notices, names: Sequence[str]) -> list[str]:
    """The sequence numbers of the notices among ``names``.

    Anything else is set apart; with hazard C2 it is passed over.
    """
    path, prefix = notices
    if not controller.quirks.hazard_c2:
        controller.set_malformed_apart(
            MalformedZNode("not a notification", None).at(f"{path}/{name}")
            for name in names
            if not name.startswith(prefix)
        )
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def delete_notices(controller: KafkaController, notices: Notices, names: Sequence[str]) -> None:
    """Delete children, whatever they hold.

    With hazard C2 a znode that no broker made stays.
    """
    path, prefix = notices
    if controller.quirks.hazard_c2:
        names = [name for name in names if name.startswith(prefix)]
    paths = [f"{path}/{name}" for name in names]
    controller.controller_zk.delete_notifications(paths, controller.context.epoch_zk_version)
    for deleted in paths:
        controller.malformed.pop(deleted, None)
