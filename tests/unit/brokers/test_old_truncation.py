"""The checks find what each of Kafka's earlier truncation protocols loses, and nothing in its last.

Schedules: KIP-101 scenario 1, KIP-279's fast failover, KIP-320's unfenced fetch, KAFKA-7128.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.cluster.data_requests import FetchRequest, FetchResponse
from klamm.cluster.requests import Message
from tests.replica_checks import check_views
from tests.unit.brokers.checked_replicas import Checked
from tests.unit.brokers.network import T0
from tests.unit.brokers.old_truncation import Truncation, install

Schedule = Callable[[Checked], None]


def tells_broker_2_the_high_watermark(message: Message) -> bool:
    body = message.body
    return (
        isinstance(body, FetchResponse)
        and message.destination.id == 2
        and all(
            answer.records is None and answer.fetch_offset > 0
            for answer in body.partitions.values()
        )
    )


def is_a_fetch_of_broker_3(message: Message) -> bool:
    return isinstance(message.body, FetchRequest) and message.source.id == 3


def restart_before_the_high_watermark_is_known(replicas: Checked) -> None:
    """KIP-101, scenario 1."""
    replicas.lost = (3,)
    replicas.lead(1, 3, (1, 2), told=(1, 2))
    replicas.replicate(1)
    replicas.withholds = tells_broker_2_the_high_watermark
    replicas.replicate(1)
    replicas.lost = (1, 3)
    replicas.lead(1, 4, (1, 2), told=(2,))
    replicas.lead(2, 5, (2,), told=(2,))


def fast_failover(replicas: Checked) -> None:
    """KIP-279: 1 leads again before it has heard that 2 did, and never knew the epoch of 2."""
    replicas.lost = (3,)
    replicas.lead(1, 3, (1, 2), told=(1, 2))
    replicas.replicate(1)
    replicas.lost = (2, 3)
    replicas.replicate(1)
    replicas.lost = (1, 3)
    replicas.lead(2, 4, (1, 2), told=(2,))
    replicas.replicate(2)
    replicas.lost = (2, 3)
    replicas.lead(1, 5, (1, 2), told=(1,))
    replicas.replicate(1)
    replicas.lost = (3,)
    replicas.lead(1, 5, (1, 2), told=(2,))
    replicas.pass_time(1_000)


def fetch_of_an_older_epoch(replicas: Checked) -> None:
    """KIP-320: a fetch arrives when its leader has been a follower, cut its log and leads again."""
    replicas.lead(1, 3)
    replicas.replicate(1)
    replicas.lost = (2,)
    replicas.withholds = is_a_fetch_of_broker_3
    replicas.replicate(1)
    [late] = replicas.withheld
    replicas.lost = (3,)
    replicas.lead(2, 4, told=(2, 1))
    replicas.lead(1, 5, told=(1, 2))
    replicas.replicate(1)
    replicas.brokers[1].receive(late)
    replicas.settle()
    replicas.lost = (1, 2)
    replicas.lead(3, 6, told=(3,))


def joining_before_the_leaders_epoch(replicas: Checked) -> None:
    """KAFKA-7128: a new leader does not know yet how far the old one was replicated."""
    replicas.lost = (3,)
    replicas.lead(1, 3, (1, 2), told=(1, 2))
    replicas.withholds = tells_broker_2_the_high_watermark
    replicas.replicate(1)
    replicas.lost = (1, 3)
    replicas.lead(2, 4, (1, 2), told=(2, 3))
    if 3 in replicas.replica(2).isr:
        replicas.lead(3, 5, (3,), told=(3,))


SCHEDULES: dict[Truncation, Schedule] = {
    Truncation.TO_HIGH_WATERMARK: restart_before_the_high_watermark_is_known,
    Truncation.KIP_101: fast_failover,
    Truncation.KIP_279: fetch_of_an_older_epoch,
    Truncation.KIP_320_FIRST_TRY: joining_before_the_leaders_epoch,
}


@pytest.mark.parametrize("truncation", Truncation, ids=lambda t: t.value)
def test_the_checks_find_the_records_that_an_earlier_protocol_loses(
    truncation: Truncation, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, truncation)
    replicas = Checked()
    SCHEDULES[truncation](replicas)
    check_views(replicas.checker, replicas.views())
    assert replicas.checker.acknowledged[T0]
    assert replicas.checker.violations


@pytest.mark.parametrize("truncation", Truncation, ids=lambda t: t.value)
def test_the_current_protocol_loses_nothing_on_the_same_schedule(truncation: Truncation) -> None:
    replicas = Checked()
    SCHEDULES[truncation](replicas)
    check_views(replicas.checker, replicas.views())
    assert replicas.checker.acknowledged[T0]
    assert replicas.checker.violations == []
