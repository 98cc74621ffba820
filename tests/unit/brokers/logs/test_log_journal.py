"""brokers/logs/log_journal.py: what operators read of repairs."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.log_journal import log_repair
from klamm.brokers.logs.recovery import Repair, RepairKind
from klamm.cluster.types import TopicPartition


@pytest.mark.parametrize("kind", [one for one in RepairKind if one != RepairKind.TAKEN_OFFLINE])
def test_a_repair_is_logged_in_words(kind: RepairKind, caplog: pytest.LogCaptureFixture) -> None:
    log_repair(1, TopicPartition("t", 0), Repair(kind, 7, 42, "the reason"), None)
    (message,) = caplog.messages
    assert message.startswith("broker 1: log t-0: ") and message.endswith(": the reason")
    assert kind not in message and "{" not in message
