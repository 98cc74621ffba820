"""The sequence diagram of a run."""

from __future__ import annotations

from itertools import pairwise

from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.drills.library import find_drill
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.page.page_sequence import Concern, sequence_diagram
from klamm.lab.page.trace import RunTrace
from klamm.lab.run.drill_run import play
from klamm.report.values import Arrow


def test_the_arrows_are_in_the_order_of_time_though_a_full_disk_delays_the_journal() -> None:
    """A journal on a full disk is written later than the events it is about."""
    drill = find_drill("journal-disk-full")
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    trace = RunTrace(driver)
    for _ in play(drill, driver):
        pass
    end = Arrow(int(driver.elapsed_ms), "end")
    every = Concern(frozenset(), frozenset())
    arrows = sequence_diagram(trace, every, lambda _: (), end).arrows
    assert any("heal_disks" in arrow.text for arrow in arrows)
    assert [(a, b) for a, b in pairwise(arrows) if b.t_ms < a.t_ms] == []
