"""What people and other programs may leave in ZooKeeper that no controller can make sense of.

Each case is a path and data, put there by hand. ``answered``: the znode goes, as that of every
request and notice does. Otherwise it stays as it is until somebody mends it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

REASSIGN: Final = "/admin/reassign_partitions"
PREFERRED: Final = "/admin/preferred_replica_election"
DELETE: Final = "/admin/delete_topics"
NOT_JSON: Final = (None, b"", b"no json", b'{"version":1', b"\xff\xfe", b"\x00")
NO_OBJECT: Final = (b"[]", b"1", b'"x"', b"null")


class Bad(NamedTuple):
    """Data (None: null) at a path."""

    path: str
    data: bytes | None

    def __str__(self) -> str:
        return f"{self.path}={'null' if self.data is None else ascii(self.data)[2:-1]}"


def _partitions(*entries: bytes) -> bytes:
    return b'{"version":1,"partitions":[' + b",".join(entries) + b"]}"


def _entry(partition: bytes, replicas: bytes, more: bytes = b"") -> bytes:
    return b'{"topic":"t","partition":%s,"replicas":%s%s}' % (partition, replicas, more)


_LISTS: Final = (
    b"{}",
    b'{"version":1}',
    b'{"version":9,"partitions":[]}',
    b'{"partitions":{}}',
    b'{"partitions":null}',
    _partitions(),
    _partitions(b"{}"),
    _partitions(b"1"),
    _partitions(b'{"topic":"t"}'),
    _partitions(b'{"partition":0}'),
    _partitions(b'{"topic":1,"partition":0}'),
    _partitions(b'{"topic":"t","partition":"0"}'),
    _partitions(b'{"topic":"t","partition":0.5}'),
    _partitions(b'{"topic":"t","partition":99999999999}'),
)
_ENTRIES: Final = (
    _entry(b"0", b"[]"),
    _entry(b"0", b"[-1]"),
    _entry(b"0", b'["1"]'),
    _entry(b"0", b"null"),
    _entry(b"0", b"1"),
    _entry(b"0", b"[0]", b',"why":1'),
    _entry(b"7", b"[1]"),
    _entry(b"-1", b"[1]"),
    b'{"topic":"no","partition":0,"replicas":[1]}',
    b'{"topic":"","partition":0,"replicas":[1]}',
    b'{"topic":"../..","partition":0,"replicas":[1]}',
)

REQUESTS: Final = (
    *(Bad(REASSIGN, data) for data in (*NOT_JSON, *NO_OBJECT, *_LISTS)),
    *(Bad(REASSIGN, _partitions(entry)) for entry in _ENTRIES),
    Bad(REASSIGN, _partitions(*_ENTRIES)),
    Bad(REASSIGN, b'{"by":"hand","partitions":[%s]}' % _entry(b"0", b"[0]")),
    *(Bad(PREFERRED, data) for data in (*NOT_JSON, *NO_OBJECT, *_LISTS)),
    Bad(PREFERRED, _partitions(b'{"topic":"no","partition":0}')),
    Bad(PREFERRED, _partitions(b'{"topic":"t","partition":-1}')),
    Bad(PREFERRED, _partitions(b'{"topic":"a//b","partition":0}')),
    *(
        Bad(f"{DELETE}/{name}", data)
        for name in ("no", "a b", "...", "\u00e9", "{}", "-", "x" * 300)
        for data in (None, b"{")
    ),
    Bad(f"{DELETE}/no/such/thing", None),
    Bad(f"{REASSIGN}/child", b""),
    Bad(f"{PREFERRED}/child", b""),
)
"""Requests that ask for nothing that can be done: they go, and nothing else changes."""

_NOTICES: Final = ("/isr_change_notification", "/log_dir_event_notification")
NOTICES: Final = (
    *(
        Bad(f"{parent}/{prefix}_0000000000", data)
        for parent, prefix in zip(_NOTICES, ("isr_change", "log_dir_event"), strict=True)
        for data in (*NOT_JSON, *NO_OBJECT, *_LISTS)
    ),
    *(
        Bad(f"{parent}/{name}", b"{}")
        for parent in _NOTICES
        for name in ("x", "isr_change_", "log_dir_event_x", "a_rather_long_name", "odd/er")
    ),
    Bad(f"{_NOTICES[0]}/isr_change_0000000007", _partitions(b'{"topic":"no","partition":0}')),
    Bad(f"{_NOTICES[1]}/log_dir_event_0000000007", b'{"version":1,"broker":77,"event":1}'),
    Bad(f"{_NOTICES[1]}/log_dir_event_0000000008", b'{"version":1,"broker":1,"event":9}'),
    Bad(f"{_NOTICES[1]}/log_dir_event_0000000009", b'{"version":1,"broker":"1","event":1}'),
)
"""Notices of brokers: they go, whatever they hold."""

_TOPICS: Final = (
    *NOT_JSON,
    *NO_OBJECT,
    b'{"version":3,"partitions":[]}',
    b'{"version":3,"partitions":{"0":[]}}',
    b'{"version":3,"partitions":{"x":[1]}}',
    b'{"version":3,"partitions":{"0":["1"]}}',
    b'{"version":3,"partitions":{"0":[1,1]}}',
    b'{"version":3,"partitions":{"0":[-1,1]}}',
    b'{"version":3,"partitions":{"0":1}}',
    b'{"version":3,"partitions":{"0":[1],"99999999999":[1]}}',
    b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{"0":["x"]}}',
    b'{"version":3,"partitions":{"0":[1]},"removing_replicas":[1]}',
)
ODD_TOPICS: Final = (
    *(
        Bad(f"/brokers/topics/{name}", b'{"version":3,"partitions":{"0":[1]}}')
        for name in ("a b", "...", "\u00e9", "-", "x" * 300)
    ),
    *(
        Bad("/brokers/topics/odd", b'{"version":%s}' % data)
        for data in (
            b'3,"partitions":{}',
            b'3,"partitions":{"0":[77]}',
            b'3,"partitions":{"0":[1,2]},"removing_replicas":{"0":[1,2]}',
            b'3,"partitions":{"-1":[1]}',
            b'3,"partitions":{"5":[1]}',
            b'99,"partitions":{"0":[1]}',
            b'3,"partitions":{"0":[1,2]},"adding_replicas":{"0":[0]}',
            b'3,"partitions":{"0":[1]},"topic_id":"x"',
        )
    ),
    Bad("/brokers/topics/odd", b"{}"),
)
"""Topics that no tool makes, and that are served as far as they can be."""
LEFT: Final = (
    *(Bad("/brokers/topics/bad", data) for data in _TOPICS),
    *(Bad("/brokers/topics/t", data) for data in _TOPICS),
    *(
        Bad("/brokers/topics/t/partitions/0/state", data)
        for data in (
            *NOT_JSON,
            *NO_OBJECT,
            b"{}",
            b'{"leader":1}',
            b'{"controller_epoch":1,"leader":"1","version":1,"leader_epoch":0,"isr":[1,2]}',
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":{}}',
        )
    ),
    *(
        Bad(f"/config/{entity}", data)
        for entity in ("topics/t", "topics/no", "brokers/<default>", "brokers/0", "brokers/x")
        for data in (*NOT_JSON, *NO_OBJECT, b'{"config":[]}', b'{"config":{"a":1}}')
    ),
    *(
        Bad(f"/config/changes/{name}", data)
        for name in ("config_change_0000000000", "x")
        for data in (*NOT_JSON, *NO_OBJECT, b"{}", b'{"version":2,"entity_path":"topics"}')
    ),
    Bad("/feature", b"{}"),
    Bad("/feature", b"no json"),
    Bad("/brokers/ids/x", b"{}"),
    Bad("/brokers/ids/77", b"no json"),
)
"""What is left as it is: no request, and nobody's to throw away."""
