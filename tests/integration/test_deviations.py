"""klamm without quirks differs from recorded Kafka only as docs/deviations.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.recordings.diff import compare_scenario
from klamm.lab.recordings.rows import StepRecord
from tests.scenarios import SCENARIOS, read_scenario, real_differences, simulated_differences

PAGE = Path(__file__).parents[2] / "docs" / "deviations.md"


def documented(name: str) -> list[str]:
    """The differences of a scenario that the page lists."""
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(rf"^\| {name} \|.*\| (.*) \|$", page, re.M)
    assert len(rows) == 1, f"the page has no row for {name}"
    lists = re.findall(rf"^The differences of {name}:\n\n((?:- `.*`\n)+)", page, re.M)
    lines = [line[3:-1] for found in lists for line in found.splitlines()]
    assert rows[0] == "none" if not lines else rows[0].startswith(f"{len(lines)} lines, below")
    return lines


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulated_world_differs_as_documented(name: str, seed: int) -> None:
    assert simulated_differences(name, NO_QUIRKS, seed) == documented(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_real_zookeeper_differs_as_documented(name: str, chroot: str) -> None:
    assert real_differences(name, NO_QUIRKS, chroot) == documented(name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_in_which_nothing_happens_differs_in_every_step(name: str) -> None:
    scenario = read_scenario(name)
    nothing = StepRecord(tree={}, transitions=[], requests=[], until_met=[])
    lines = compare_scenario(scenario, [nothing] * len(scenario["steps"]))
    assert {int(line.split()[1]) for line in lines} == set(range(len(scenario["steps"])))
    requests = () if "requests" in scenario["ignore"] else ("LeaderAndIsr", "UpdateMetadata")
    for section in ("znode", "transitions", *requests):
        assert any(f": {section} " in line for line in lines), section
