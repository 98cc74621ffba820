"""The texts of the quirks, which are the docstrings of their fields in cluster/quirks.py."""

from __future__ import annotations

from docs.markdown import table
from klamm.cluster import quirks
from klamm.lab.drills.bug_texts import quirk_texts


def quirk_table() -> str:
    """Return the table of quirks: the behaviour of Kafka 2.8.2 and of klamm."""
    texts = quirk_texts()
    rows = [(quirks.quirk_label(name), *texts[field]) for name, field in quirks.NAMES.items()]
    return table(("quirk", "Kafka 2.8.2", "klamm"), rows)
