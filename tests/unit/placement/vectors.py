"""Reads the recorded answers of the Kafka 2.8.2 classes under tests/data/placement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.errors import AdminError
from klamm.placement.broker_metadata import BrokerMetadata

DATA = Path(__file__).parents[2] / "data" / "placement"

Case = dict[str, Any]


def cases(name: str) -> list[Any]:
    """The lines of one file as pytest parameters, named by their line number."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [
        pytest.param(json.loads(line), id=f"line{number}") for number, line in enumerate(lines, 1)
    ]


def brokers_of(case: Case) -> list[BrokerMetadata]:
    """The brokers of a case, in the order in which Kafka was given them."""
    return [BrokerMetadata(broker["id"], broker["rack"]) for broker in case["brokers"]]


def by_partition(recorded: dict[str, list[int]]) -> dict[int, tuple[int, ...]]:
    """A recorded {partition: replicas} with integer keys."""
    return {int(partition): tuple(replicas) for partition, replicas in recorded.items()}


def assert_same_error(raised: AdminError, recorded: dict[str, str], message: str) -> None:
    """The class and the text are Kafka's; `message` is the recorded text made comparable."""
    assert raised.kafka_class == recorded["class"]
    assert raised.message == message
