"""The table in docs/deviations.md of bugs of Kafka 2.8.2 that klamm never reproduces.

docs/generate.py puts it into the page.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from docs.markdown import table


class KnownBug(NamedTuple):
    """A bug without a quirk; ``test`` (file::function) shows what klamm does."""

    name: str
    kafka: str
    klamm: str
    test: str


WITHOUT_A_SWITCH: Final = (
    KnownBug(
        "KAFKA-14359",
        "A new idempotent producer sends up to five batches at once. If the leader changes and a "
        "later batch reaches the new leader first, that one is accepted, and the first is refused "
        "until the delivery timeout.",
        "The producer keeps one batch per partition in flight until its first batch is "
        "acknowledged.",
        "tests/unit/brokers/test_client_parts.py::"
        "test_a_new_leader_gets_no_later_batch_before_the_first_one",
    ),
)


def known_bug_table() -> str:
    """Every bug: what Kafka 2.8.2 does, what klamm does, and the test that shows it."""
    rows = []
    for bug in WITHOUT_A_SWITCH:
        file, _, function = bug.test.partition("::")
        rows.append((bug.name, bug.kafka, bug.klamm, f"`{function}` in {file}"))
    return table(("bug", "Kafka 2.8.2", "klamm", "test"), rows)
