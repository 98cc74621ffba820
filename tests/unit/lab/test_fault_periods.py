"""lab/page/fault_periods.py: from when to when faults lasted."""

from __future__ import annotations

from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.drills.library import named_drill
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.page.fault_periods import FaultPeriods
from klamm.world.network import CLIENTS, ZOOKEEPER, LinkFault, between


def test_faults_are_listed_by_their_beginnings_and_those_that_last_end_now() -> None:
    world = named_drill("leader-loss").simulated_world(NO_QUIRKS, 0)
    driver = SimulatedDriver(world)
    periods = FaultPeriods(driver)
    for broker_id, skew_ms in ((1, 500), (2, -5_000), (2, 0)):
        world.clocks[broker_id].skew_ms = skew_ms
        periods.observe()
        driver.run_for(1_000)
    found = [(*period.fault, period.begin_ms, period.end_ms) for period in periods.until(9_000)]
    assert found == [((1,), "clock +500 ms", 0, 9_000), ((2,), "clock -5,000 ms", 1_000, 2_000)]


def test_a_fault_concerns_the_broker_that_all_its_links_have_in_common_or_all_brokers() -> None:
    driver = SimulatedDriver(named_drill("leader-loss").simulated_world(NO_QUIRKS, 0))
    driver.cluster.transport.faults = tuple(
        LinkFault(links=between(groups), is_cut=True, text=f"cut: {number}")
        for number, groups in enumerate(
            ([[0], [1, 2]], [[1], [ZOOKEEPER]], [[0, 1], [2, 3]], [[0, 1], [CLIENTS]])
        )
    )
    periods = FaultPeriods(driver)
    periods.observe()
    assert [period.fault for period in periods.until(0)] == [
        ((0,), "cut: 0"),
        ((1,), "cut: 1"),
        ((0, 1, 2, 3), "cut: 2"),
        ((0, 1), "cut: 3"),
    ]
