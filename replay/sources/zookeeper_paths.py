"""Which of a Kafka cluster's znodes a path is, under whatever chroot.

Looks at paths alone: what was written there is read in zookeeper_changes.py. Mirrors
kafka.zk.ZkData.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple


class ZNode(NamedTuple):
    """A znode that matters: ``what`` it is, of which topic, broker or partition.

    ``chroot``: what stands before its path in Kafka, "" for nothing.
    """

    chroot: str
    what: str
    topic: str | None = None
    number: int = -1


BROKER, TOPIC, STATE, DELETE_TOPICS = "broker", "topic", "state", "delete_topics"
CONTROLLER, EPOCH = "controller", "controller_epoch"
REASSIGN, PREFERRED = "reassign_partitions", "preferred_replica_election"
_IDENTIFYING: Final = re.compile(
    r"""(?P<chroot>(?:/[^/]+)*?)/(?:
        brokers/ids/(?P<broker>[0-9]{1,9})
      | brokers/topics/(?P<topic>[^/]+)
        (?P<below>/partitions(?:/(?P<partition>[0-9]{1,9})(?P<state>/state)?)?)?
      | (?P<root>controller|controller_epoch)
      | admin/delete_topics/(?P<deleted>[^/]+)
      | admin/(?P<request>reassign_partitions|preferred_replica_election)
      | (?P<other>(?:config/(?:topics|clients|users|brokers|ips|changes)|consumers/[^/]+)
        /(?:.+/)?controller(?:_epoch)?)
    )""",
    re.VERBOSE,
)


@lru_cache(maxsize=65536)
def znode_of(path: str) -> ZNode | None:
    """Which of the znodes that matter here a path is; the chroot is what stands before."""
    match = _IDENTIFYING.fullmatch(path)
    if match is None or match["other"]:
        return None
    chroot = match["chroot"]
    if match["topic"]:
        if match["state"]:
            return ZNode(chroot, STATE, match["topic"], int(match["partition"]))
        return None if match["below"] else ZNode(chroot, TOPIC, match["topic"])
    if match["broker"]:
        return ZNode(chroot, BROKER, None, int(match["broker"]))
    if match["deleted"]:
        return ZNode(chroot, DELETE_TOPICS, match["deleted"])
    return ZNode(chroot, match["root"] or match["request"])
