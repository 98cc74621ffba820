"""The YAML file of pools: what it may say, and the one line for what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cluster.errors import UsageError
from klamm.placement.pools import Pool, Pools, TopicRule, ViolationKind
from klamm.tools.pools.pool_file import parse_pools, read_pools

DATA = Path(__file__).parents[2] / "data" / "pools"
BAD = "topics: {x: a}\npools:\n"
GOOD = "pools:\n  a: [1]\n  b: [2, 4-6]\ntopics:\n  x: a\n"


def test_the_pools_file_of_the_worked_example_is_read() -> None:
    pools = read_pools(DATA / "article.yaml")
    assert pools == Pools(
        {
            "pool1": Pool("pool1", (1, 2, 3)),
            "pool2": Pool("pool2", (4, 5, 6)),
            "pool3": Pool("pool3", (7, 8, 9)),
        },
        (TopicRule("T[1-3]", "pool1"), TopicRule("T[4-6]", "pool2"), TopicRule("T[7-9]", "pool3")),
    )


def test_words_are_taken_as_written_and_rules_keep_their_order() -> None:
    pools = parse_pools(
        "topics: {2021-01-01: no, 10: no, '.*': on}\n"
        "pools: {on: [3, 0, 1-2], no: ['7']}\n"
        "weights: {7: 2.5, 0: 1}\n"
    )
    assert pools.by_name == {"on": Pool("on", (0, 1, 2, 3)), "no": Pool("no", (7,))}
    assert [(rule.pattern, rule.pool) for rule in pools.rules] == [
        ("2021-01-01", "no"),
        ("10", "no"),
        (".*", "on"),
    ]
    assert [pools.weight(id_) for id_ in (7, 0, 1)] == [2.5, 1.0, 1.0]


def test_the_largest_id_and_the_longest_range_are_read() -> None:
    pools = parse_pools("pools: {a: [0-9999], b: [2147483647]}\ntopics: {x: a}\n")
    assert len(pools.by_name["a"].broker_ids) == 10_000
    assert pools.by_name["b"].broker_ids == (2**31 - 1,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f: the file is empty"),
        ("pools", "f:1:1: the file must be at least one 'name: value' line"),
        ("- 1", "f:1:1: the file must be at least one 'name: value' line"),
        ("pools: {a: [1]}", "f:1:1: section 'topics' is missing"),
        ("topics: {x: a}", "f:1:1: section 'pools' is missing"),
        (
            "pools: {}\ntopics: {x: a}",
            "f:1:8: section 'pools' must be at least one 'name: value' line",
        ),
        (GOOD + "pool: 1", "f:6:1: unknown word in the file 'pool'"),
        (GOOD + "pools: {c: [9]}", "f:6:1: 'pools' is given twice in the file"),
        (GOOD + "  x: b", "f:6:3: 'x' is given twice in section 'topics'"),
        (GOOD + "  y: c", "f:6:6: pool 'c' of topics y is not declared"),
        (GOOD + "  y:", "f:6:5: the pool of topics y is empty"),
        (GOOD + "  y: [a]", "f:6:6: the pool of topics y must be a single word"),
        (GOOD + "  '': a", "f:6:3: a name in section 'topics' is empty"),
        (GOOD + "  ? [a]\n  : a", "f:6:5: a name in section 'topics' must be a single word"),
        (GOOD + "  'x(': a", "f:6:3: 'x(' is not a regular expression: missing ), unterminated"),
        (GOOD + "  '*x': a", "f:6:3: '*x' is not a regular expression: nothing to repeat"),
        (GOOD + "  '[[a]': a", "f:6:3: '[[a]' is not a regular expression: Possible nested set"),
        (GOOD + "weights: 2", "f:6:10: section 'weights' must be at least one 'name: value' line"),
        (GOOD + "weights: {3: 2}", "f:6:11: broker 3 has a weight but no pool"),
        (GOOD + "weights: {a: 2}", "f:6:11: 'a' in section 'weights' is not a broker id"),
        (
            GOOD + "weights: {1: 0}",
            "f:6:14: the weight of broker 1 must be a positive number, not '0'",
        ),
        (GOOD + "weights: {1: -1}", "must be a positive number, not '-1'"),
        (GOOD + "weights: {1: .inf}", "must be a positive number, not '.inf'"),
        (BAD + "  a: [1, 2]\n  b:\n  - 3\n  - 2\n", "f:6:5: broker 2 is in pool a and in pool b"),
        (BAD + "  a: [1, 1]", "f:3:10: broker 1 is listed twice in pool a"),
        (BAD + "  a: [1, 1-2]", "f:3:10: broker 1 is listed twice in pool a"),
        (BAD + "  a: 1", "f:3:3: pool a must list its brokers"),
        (BAD + "  a:", "f:3:3: pool a must list its brokers"),
        (BAD + "  a: []", "f:3:3: pool a must list its brokers"),
        (BAD + "  a: [[1]]", "f:3:7: a broker of pool a must be a single word"),
        (BAD + "  a: [x]", "f:3:7: 'x' is not a broker id"),
        (BAD + "  a: [-1]", "f:3:7: '-1' is not a broker id"),
        (BAD + "  a: [01]", "f:3:7: '01' is not a broker id"),
        (BAD + "  a: [3-1]", "f:3:7: the range 3-1 is descending"),
        (BAD + "  a: [0-10000]", "f:3:7: the range 0-10000 has more than 10000 brokers"),
        (BAD + "  a: [2147483648]", "f:3:7: broker id 2147483648 exceeds the maximum of "),
        ("pools:\n  a: [1\n", "f:3:1: expected ',' or ']'"),
        ("pools: *a", "f:1:8: anchors and aliases are not allowed"),
        ("a: 1\n---\nb: 2", "f:2:1: but found another document"),
        ("a: 1\nb: \x00", "f:2:4: not YAML: special characters are not allowed"),
        ("[" * 5000, "f:1:51: nested too deeply"),
        # Nothing masks another mistake: there is no section 'topics', or no 'pools'.
        ("pools:\n  a: [1, 1]", "f:2:10: broker 1 is listed twice in pool a"),
        ("pools:\n  a: [1]\n  a: [2]", "f:3:3: 'a' is given twice in section 'pools'"),
        ("pools:\n  a: [3-1]", "f:2:7: the range 3-1 is descending"),
        ("pools:\n  a: [-1]", "f:2:7: '-1' is not a broker id"),
        ('pools:\n  a: ["x"]', "f:2:7: 'x' is not a broker id"),
        ("pools:\n  a: !!python/name:os.system [1]", "f:2:6: the tag !!python/name:os.system is"),
        ("pools:\n  a: [!mine 1]", "f:2:7: the tag !mine is not allowed"),
        ("\ntopics:\n  'x(': a", "f:3:3: 'x(' is not a regular expression"),
        ("weights:\n  1: x\ntopics: {x: a}", "f:2:6: the weight of broker 1 must be a positive"),
    ],
)
def test_every_mistake_is_one_line_that_names_its_place(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_pools(text, "f")
    assert said in refused.value.message
    assert "\n" not in refused.value.message
    assert refused.value.hint


def test_a_pools_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_pools(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="Is a directory"):
        read_pools(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"pools: \xe9")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_pools(tmp_path / "latin.yaml")


def test_the_docs_file_is_one_and_the_docs_name_every_kind_of_violation() -> None:
    docs = (Path(__file__).parents[3] / "docs" / "rehearsal.md").read_text()
    pools = parse_pools(docs.split("```yaml pools.yaml\n")[1].split("```")[0])
    named = [pools.pool_of(topic) for topic in ("orders-eu", "orders-us", "__consumer_offsets")]
    assert [pool and pool.name for pool in named] == ["pool2", "pool1", "spare"]
    assert all(f"`{kind.value}`" in docs for kind in ViolationKind)
