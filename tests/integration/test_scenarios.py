"""Recorded scenarios of real Kafka 2.8.2 brokers, run again by klamm in both worlds.

With every quirk on nothing may differ; for klamm as it is, see test_deviations.py.
"""

from __future__ import annotations

import pytest

from klamm.cluster.quirks import KAFKA_2_8_2
from tests.scenarios import SCENARIOS, real_differences, simulated_differences


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_with_all_quirks_equals_kafka(name: str, seed: int) -> None:
    lines = simulated_differences(name, KAFKA_2_8_2, seed)
    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_real_zookeeper_with_all_quirks_equals_kafka(name: str, chroot: str) -> None:
    lines = real_differences(name, KAFKA_2_8_2, chroot)
    assert not lines, "\n".join(lines)
