"""The page of a run: what it shows of planted bugs, what it leaves out, and in a real browser."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from klamm.cluster.quirks import NO_QUIRKS, parse_quirks
from klamm.cluster.status import PAUSED, RUNNING
from klamm.lab.actions.action import DEAD
from klamm.lab.drills import library
from klamm.lab.hunt.hunting import page_of_text
from klamm.lab.page.trace import BrokerState
from tests.browser import CHROMIUM, browser
from tests.unit.report.pages import Element, loaded, read_page

BUGS: Final = {
    "kafka-14140": "KAFKA-14140",
    "c5": "C5",
    "delete-while-reassigning": "2.8.2",
}
"""A bug of ISRs, one of two controllers, and one of deletions and reassignments; with quirks."""
HEAD: Final = "drill: d\nabout: x\ncluster: {topics: {t: [[0, 1, 2]]}}\nsteps:\n"


def page_of(drill: str) -> str:
    quirks = parse_quirks([BUGS[drill]])
    return page_of_text(library.named_text(drill), f"{drill}.yaml", 0, quirks, "klamm <again>")


def cells(root: Element, caption: str) -> list[tuple[str, ...]]:
    """The rows of the one table with this caption."""
    (table,) = (t for t in root.all("table") if t.only("caption").text == caption)
    return [tuple(td.text for td in row.all("td")) for row in table.only("tbody").all("tr")]


def periods(root: Element) -> list[tuple[str, ...]]:
    """The spans and marks of the timeline: lane, begin, end and text."""
    (table,) = (t for t in root.all("table") if "partitions that failed" in t.only("caption").text)
    return [tuple(td.text for td in row.all("td")) for row in table.all("tr")[1:]]


def timeline(root: Element) -> set[tuple[str, str]]:
    """The spans and marks of the timeline: lane, and text."""
    return {(lane, text) for lane, _, _, text in periods(root)}


def arrows(root: Element) -> list[tuple[str, str, str]]:
    """The rows of the sequence diagram: from, to, text."""
    rows = cells(root, "Messages, znode writes and notifications")
    return [(source, target, text) for _, source, target, text in rows]


def test_a_page_shows_how_an_isr_came_to_violate_an_invariant() -> None:
    root = read_page(page_of("kafka-14140"))
    assert loaded(root) == []
    violated = "Violated isr-grows-by-live-brokers: A broker that the controller knows"
    assert root.only("p", "verdict").text.startswith(violated)
    assert "klamm <again>" in root.only("dl", "facts").text
    assert timeline(root) >= {
        ("steps", "kill: 2"),
        ("controller", "0 paused"),
        ("controller", "3 (epoch 2)"),
        ("deposed controller", "0 (epoch 1) paused, no session"),
        ("broker 0", "paused"),
        ("broker 2", "dead"),
        ("t-0", "leader 1, ISR 1"),
        ("controllers", "controller elected: controller 3 epoch 2"),
    }
    drawn = arrows(root)
    assert drawn[-1][2].startswith("violated isr-grows-by-live-brokers; seen t-0: brokers [2]")
    written = ("controller 3", "ZooKeeper", "set t-0 state: leader 1, epoch 0, ISR 1,2")
    after = drawn[drawn.index(written) + 1 : -1]
    assert all(text.startswith("queued: ") for _, _, text in after)
    assert ("broker 1", "controller 3", "AlterIsr t-0 ISR 1,2") in drawn
    assert ("controller 0", "broker 1", "AlterIsr: t-0 ISR 1") in drawn
    assert ("ZooKeeper", "controller 3", "ControllerChange (epoch 2)") in drawn
    ended = "session of broker 0 ended: delete /brokers/ids/0; delete /controller"
    assert ("ZooKeeper", "", ended) in drawn
    asked = "LeaderAndIsr(1) t-0 leader 1, epoch 0, ISR 1,2"
    assert ("controller 0", "broker 1, broker 2", asked) in drawn
    assert [name.text for name in root.only("svg", "sequence").all("text", "name")] == [
        "client",
        "ZooKeeper",
        "controller 0",
        "controller 3",
        *(f"broker {n}" for n in range(4)),
    ]
    (last,) = (row for row in root.all("tr", "highlighted") if row.all("td")[0].text == "24")
    assert [td.text for td in last.all("td")][2:4] == ["controller 3 epoch 2", "9"]
    assert "AlterIsrReceived(1,77)" in last.text


def test_a_page_shows_two_controllers() -> None:
    root = read_page(page_of("c5"))
    # The time axis begins with the drill's own steps, not with the start of its cluster.
    begins_s = [(lane, float(begin.split()[0])) for lane, begin, _, _ in periods(root)]
    assert min(begin_s for _, begin_s in begins_s) == 3.81
    assert min(begin_s for lane, begin_s in begins_s if lane == "steps") == 4.0
    lines = root.only("svg", "sequence").all("line", "good")
    assert [line.only("title").text for line in lines] == ["0 (epoch 1)", "1 (epoch 2)"]
    drawn = arrows(root)
    refused = ("controller 0", "broker 2", "AlterIsr: UNKNOWN_SERVER_ERROR")
    written = ("controller 1", "ZooKeeper", "set t-0 state: leader 2, epoch 0, ISR 2")
    assert drawn.index(refused) < drawn.index(("controller 0", "", "controller resigned, epoch 1"))
    assert drawn.index(refused) < drawn.index(written)
    # The same response of several brokers is one row.
    assert [row for row in drawn if "," in row[0]] == [
        ("broker 3, broker 2", "controller 0", "LeaderAndIsr: ok"),
        ("broker 3, broker 2", "controller 1", "LeaderAndIsr: t-0 STALE_CONTROLLER_EPOCH"),
    ]


def test_a_page_shows_a_leaderless_partition_a_reassignment_and_a_deletion() -> None:
    root = read_page(page_of("delete-while-reassigning"))
    assert ("t-0", "no leader, ISR 2") in timeline(root)
    kinds = {kind for kind, _ in timeline(root)}
    assert {"reassignments", "deletions", "elections", "failure"} <= kinds
    assert "from 24.000 s to 54.000 s: the time axis ends before that" in root.text
    assert ("controller 0", "", "reassignment of t-0: U1, U2, A1") in arrows(root)
    outcomes = [outcome for _, _, outcome in cells(root, "Steps of the run")]
    assert "NOT HELD after 49.993 s: until leader: {t-0: 0}" in outcomes[-1]


def test_a_page_shows_faults_beside_the_brokers_that_they_concern() -> None:
    head = HEAD.replace("cluster: {", "cluster: {config: {log.dirs: 'd0,d1'}, ")
    text = (
        "  - cut: {from: 1, to: zookeeper}\n  - wait: 1s\n"
        "  - delay: {between: [1, others], ms: 20}\n  - skew_clock: {broker: 2, ms: 60000}\n"
        "  - slow_disk: {broker: 2, log_dir: d0, bytes_per_s: 1000}\n"
        "  - fail_requests: {api: Produce, drop: true, broker: 0, times: 5}\n"
        "  - fail_disk: {journal: true, kind: eio}\n  - wait: 1s\n"
        "  - isolate: [2]\n  - clog: {between: [[0], [1, 2]]}\n  - wait: 500ms\n"
        "  - heal_network\n  - heal_disks\n  - fail_log_dir: {broker: 0, log_dir: d1}\n"
        "  - wait: 1s\n"
    )
    found = periods(read_page(page_of_text(head + text, "d.yaml", 0, NO_QUIRKS, "")))
    begun, later, split, healed = (f"{s:.3f} s" for s in (4, 5, 6, 6.5))
    assert {row for row in found if "faults" in row[0] and row[2] <= healed} == {
        ("broker 1: faults", begun, healed, "cut: 1 -> zookeeper"),
        ("faults", later, healed, "disk of the journal: eio"),
        ("broker 0: faults", later, healed, "Produce requests to broker 0 are dropped"),
        ("broker 1: faults", later, healed, "delayed by 20 ms: 1 | others"),
        ("broker 2: faults", later, healed, "disk d0: slow, 1000 bytes/s"),
        ("broker 2: faults", split, healed, "isolated: 2"),
        ("broker 0: faults", split, healed, "clogged: 0 | 1,2"),
    }
    assert {(lane, text) for lane, _, end, text in found if end > healed} >= {
        ("broker 2: faults", "clock +60,000 ms"),
        ("broker 0: faults", "log directory d1 offline"),
    }


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (BrokerState(RUNNING, True), "running"),
        (BrokerState(RUNNING, False), "no session"),
        (BrokerState(PAUSED, True), "paused"),
        (BrokerState(PAUSED, False), "paused, no session"),
        (BrokerState(DEAD, True), "dead, session not expired"),
        (BrokerState(DEAD, False), "dead"),
    ],
)
def test_the_state_of_a_broker_in_words(state: BrokerState, text: str) -> None:
    assert state.text == text


def test_texts_are_escaped_and_a_run_that_passes_has_a_page() -> None:
    text = HEAD.replace("about: x", "about: '<script>alert(1)</script>'") + "  - kill: 1\n"
    root = read_page(page_of_text(text, "d.yaml", 0, NO_QUIRKS, "<b>"))
    assert loaded(root) == []
    assert "d: <script>alert(1)</script>" in root.only("dl", "facts").text
    assert "good" in (root.only("p", "verdict").attributes["class"] or "")
    assert root.all("tr", "highlighted") == []
    assert arrows(root)[-1] == ("", "", "passed after 7.007 s")


def test_the_page_shows_the_run_with_its_seed() -> None:
    text = HEAD + "  - {kill: 1}\n"
    pages = [page_of_text(text, "d.yaml", seed, NO_QUIRKS, "") for seed in (0, 1, 1)]
    assert "seed 0" in pages[0] and "seed 1" in pages[1]
    first, second, again = (arrows(read_page(page)) for page in pages)
    assert first != second == again


def test_a_long_run_has_a_small_page_soon() -> None:
    text = HEAD + "  - pause: 1\n  - wait: 10ms\n  - resume: 1\n  - wait: 10ms\n" * 200
    began_s = time.process_time()
    page = page_of_text(text, "d.yaml", 0, NO_QUIRKS, "")
    assert len(page) < 500_000
    assert "Only the last 100 changes of a lane." in page
    lanes = 6  # steps, controller, three brokers, the partition
    assert len(read_page(page).all("rect", "span")) <= 100 * lanes
    assert time.process_time() - began_s < 10


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: make chromium installs it")
def test_a_browser_shows_the_page_without_errors(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of("kafka-14140"), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        for width in (1280, 390):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            tab.call("Emulation.setDeviceMetricsOverride", **size)
            tab.open(file)
            tab.until("!document.getElementById('tools').hidden")
            assert tab.run("document.documentElement.scrollWidth") <= width
            tab.screenshot(tmp_path / f"{width}.png", captureBeyondViewport=True)
            assert (tmp_path / f"{width}.png").stat().st_size > 20_000
        assert tab.run("document.getElementById('range').textContent").endswith(" s")
        shown = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
        assert [event for event in tab.events if event["method"] in shown] == []
        asked = [e for e in tab.events if e["method"] == "Network.requestWillBeSent"]
        assert {e["params"]["request"]["url"] for e in asked} == {file.as_uri()}
