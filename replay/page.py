"""The page of a replay: plots and tables of its answers, violations first.

Converts Answers to the sections, plots and tables of report.values. The text output shows the same
tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from klamm.replay.answers import How, Question, how_answered
from klamm.replay.data_loss import DataLoss
from klamm.replay.engines import Row, rows
from klamm.replay.event_table import EventTable
from klamm.replay.listings import Listing, in_strings
from klamm.replay.page_head import (
    Limits,
    Replayed,
    extent,
    figures,
    logs,
    total_column,
    violations_sentence,
)
from klamm.replay.page_plots import (
    churn_maps,
    leader_rows,
    life_lines_plot,
    offline_plots,
    reassignment_bars,
)
from klamm.replay.page_tables import (
    PLACED,
    UNKNOWN,
    Column,
    after_text,
    duration_cell,
    ids_text,
    key_text,
    longest,
    or_unknown,
    paths_within,
    place_text,
    table_of,
    there,
    time_cell,
    took_text,
    when_text,
)
from klamm.replay.questions.isrs import FLAP_WINDOW_MS, FLAPS
from klamm.replay.questions.timeline import BROKER_FAILURE
from klamm.replay.run import Answers
from klamm.report.scales import duration_text, time_text
from klamm.report.values import Block, Cell, Page, Section, Table


def replay_page(asked: Replayed, answers: Answers, lives: Sequence[Row] = ()) -> Page:
    """Return the page of a replay, without empty sections.

    ``lives``: result of ``life_rows``; if empty, the page has no section on individual partitions.
    """
    verdict, tone = violations_sentence(answers)
    if asked.folder:
        answers = paths_within(asked.folder, answers)
    begin_ms = max(answers.first_ms or 0, asked.from_ms or 0)
    sections = [
        logs(asked, answers),
        _violations(answers),
        _availability(answers, begin_ms),
        _leaders(answers, begin_ms),
        _isrs(answers, begin_ms),
        _reassignments(answers, begin_ms),
        _controllers(asked, answers),
        _partitions(answers, lives, begin_ms),
        _trouble(asked, answers),
        _damaged(answers.data_loss),
        _limits(asked.limits),
    ]
    return Page(
        title=f"Replay of {asked.name}",
        verdict=verdict,
        tone=tone,
        figures=list(figures(answers, asked.limits)),
        facts=[*extent(answers), *asked.facts],
        sections=[section for section in sections if section.blocks],
    )


def life_rows(table: EventTable, answers: Answers) -> Sequence[Row]:
    """Return the state, leader and ISR size of partitions over time, with names for codes."""
    return in_strings({"lives": rows(table.engine, answers.life_lines())}, table)["lives"]


def _violations(answers: Answers) -> Section:
    listed = (
        table_of(
            answers,
            "illegal",
            "Illegal transitions",
            *PLACED,
            ("from", "from_state"),
            ("to", "to_state"),
            ("controller epoch", "epoch"),
        ),
        *_lost_rows(answers),
        _places("Lost transactions", "lost before", answers.data_loss.lost),
        table_of(
            answers,
            "unclean",
            "Unclean elections",
            *PLACED,
            ("leader", lambda row: f"{row['prev_leader']} → {row['leader']}"),
            ("leader epoch", "leader_epoch"),
            ("ISR before", lambda row: ids_text(row["prev_isr"])),
            ("election", "election"),
        ),
        table_of(
            answers,
            "duplicates",
            "Duplicate rows",
            ("first", place_text),
            ("last", lambda row: f"{row['copy_file']}:{row['copy_line']}"),
            ("controller epoch", "epoch"),
            ("seq", "seq"),
            ("copies", "copies"),
            ("identical", lambda row: "no" if row["is_contradiction"] else "yes"),
        ),
        table_of(
            answers,
            "late_writes",
            "Writes by a controller after a newer epoch began",
            *PLACED,
            ("kind", "kind"),
            ("controller", "controller"),
            ("controller epoch", "epoch"),
        ),
        table_of(
            answers,
            "shared_epochs",
            "Epochs with two controllers",
            ("controller epoch", "epoch"),
            ("controllers", lambda row: ids_text(row["controllers"])),
            ("from (UTC)", lambda row: time_text(row["first_ms"])),
        ),
    )
    text = "Forbidden actions of controllers, and gaps and duplicates in logs, with file and line."
    return Section("Violations", text, there(listed))


def _lost_rows(answers: Answers) -> Iterator[Table]:
    """Yield tables of lost rows: within a controller epoch, at its end, and per partition."""
    before: Column = ("lost before", lambda row: f"{row['before_file']}:{row['before_line']}")
    at: Column = ("time (UTC)", lambda row: time_text(row["before_t_ms"]))
    rest: tuple[Column, ...] = (("rows", "missing"), ("lost after", after_text))
    yield table_of(
        answers, "lost_rows", "Lost rows", before, at, ("controller epoch", "epoch"), *rest
    )
    yield table_of(
        answers,
        "lost_tails",
        "Controller epochs whose last rows are lost",
        ("proved at", place_text),
        ("time (UTC)", when_text),
        ("by controller epoch", "epoch"),
        ("partitions", "partitions"),
        ("first", key_text),
        ("leader epoch in the journal", "known"),
        ("leader epoch in ZooKeeper", "leader_epoch"),
    )
    title = "Lost rows of partitions and replicas"
    yield table_of(answers, "gaps", title, before, at, ("partition", key_text), *rest)


def _availability(answers: Answers, begin_ms: int) -> Section:
    columns: tuple[Column, ...] = (
        ("partition", key_text),
        ("from (UTC)", lambda row: or_unknown(time_cell(row["start_ms"]))),
        ("to (UTC)", lambda row: time_cell(row["end_ms"])),
        ("duration", lambda row: or_unknown(took_text(row))),
    )
    offline = longest(
        answers,
        "offline_intervals",
        "Longest intervals in OfflinePartition",
        *columns,
        ("ended by", lambda row: row["ended_by"] or "not ended"),
    )
    leaderless = longest(
        answers,
        "leaderless_intervals",
        "Longest intervals without a live leader",
        *columns,
        ("previous leader", lambda row: or_unknown(row["lost"])),
    )
    failed = table_of(
        answers,
        "failed",
        "Failed transitions",
        *PLACED,
        ("from", "from_state"),
        ("to", "to_state"),
        ("reason", "outcome"),
    )
    blocks: list[Block] = [
        *offline_plots(answers, begin_ms),
        *there([leaderless, offline, failed]),
    ]
    text = (
        "Clients cannot use a partition without a live leader. Such an interval begins when the "
        "log first shows, for example by the controller's notice of a failure, that the leader's "
        "broker lost its registration, that the state znode has leader -1, or that the partition "
        "is in OfflinePartition. The leader may have died up to a session timeout earlier; klamm "
        "status shows a dead leader at once. OfflinePartition is a "
        "state in the controller's memory: it begins when the controller handles the failure, and "
        "ends at once if the controller can elect another leader."
    )
    return Section("Partitions without a live leader", text, blocks)


def _leaders(answers: Answers, begin_ms: int) -> Section:
    text = "Number of partitions that each broker led."
    return Section("Leaders", text, list(leader_rows(answers, begin_ms)))


def _isrs(answers: Answers, begin_ms: int) -> Section:
    flapping = table_of(
        answers,
        "flapping",
        "Flapping replicas",
        ("replica", key_text),
        ("left", "shrinks"),
        ("rejoined", "expands"),
        ("from (UTC)", lambda row: time_text(row["start_ms"])),
        ("to (UTC)", lambda row: time_text(row["end_ms"])),
    )
    text = (
        "How often replicas left and rejoined ISRs. A replica is flapping if it did both at least "
        f"{FLAPS} times within {duration_text(FLAP_WINDOW_MS)}; its worst such period is listed."
    )
    blocks: list[Block] = [*churn_maps(answers, begin_ms), *there([flapping])]
    return Section("ISRs", text, blocks)


def _reassignments(answers: Answers, begin_ms: int) -> Section:
    listed = table_of(
        answers,
        "reassignments",
        "Longest reassignments",
        ("partition", key_text),
        ("from (UTC)", lambda row: time_cell(row["start_ms"])),
        ("duration", took_text),
        ("status", "status"),
        ("last phase", lambda row: or_unknown(row["last_phase"])),
        ("controller epochs", "epochs"),
    )
    text = "Unfinished reassignments first, then the longest."
    return Section("Reassignments", text, [*reassignment_bars(answers, begin_ms), *there([listed])])


def _controllers(asked: Replayed, answers: Answers) -> Section:
    def ready_cell(row: Row) -> Cell:
        if row["ready_after_ms"] is not None:
            return duration_cell(row["ready_after_ms"])
        readings = asked.readings.get(row["source"], ())
        is_whole = all(how_answered(Question.FAILOVERS, at).how is How.YES for at in readings)
        return "not ready" if is_whole else UNKNOWN

    failovers = table_of(
        answers,
        "failovers",
        "Controllers in order of election",
        ("controller epoch", "epoch"),
        ("controller", "controller"),
        ("elected (UTC)", lambda row: time_cell(row["elected_ms"])),
        ("ready after", ready_cell),
        (
            "after last event of older epochs",
            lambda row: duration_cell(row["since_older_epoch_ms"]),
        ),
    )
    starts = table_of(
        answers,
        "starts",
        "Starts of klamm up",
        ("time (UTC)", when_text),
        ("run", lambda row: row["detail"].partition(" ")[0]),
        ("controller epochs", _epochs_text),
    )
    marks = answers.listings["marks"].rows
    failures = [row for row in marks if row["what"] == BROKER_FAILURE]
    listed = Listing(tuple(failures), len(failures))
    broker_failures = table_of(
        replace(answers, listings={**answers.listings, "failures": listed}),
        "failures",
        "Broker failures",
        ("time (UTC)", when_text),
        ("failures", "times"),
        ("brokers", lambda row: ids_text(row["brokers"])),
    )
    text = (
        "Elected controllers, and the time until each was ready. If the last event of an older "
        "epoch is long before an election, either the old controller had nothing to log, or "
        "there was no controller. Broker failures are those that the log shows: of a broker that "
        "failed as controller, the journal and Kafka's logs show only the next election."
    )
    clusters = {row["run"] for row in answers.listings.get("starts", Listing()).rows}
    restarts = [starts] if len(starts.rows) > len(clusters) else []
    return Section("Failovers", text, there([*restarts, failovers, broker_failures]))


def _epochs_text(row: Row) -> str:
    first, last = row["first_epoch"], row["last_epoch"]
    if first is None:
        return "none"
    return f"{first}" if first == last else f"{first} to {last}"


def _partitions(answers: Answers, lives: Sequence[Row], begin_ms: int) -> Section:
    text = "Search for a partition, for example orders-0."
    return Section("Partitions", text, [life_lines_plot(answers, lives, begin_ms)] if lives else [])


def _trouble(asked: Replayed, answers: Answers) -> Section:
    column = partial(total_column, asked)
    counted = (
        column("lost rows", "missing", Question.GAPS),
        column("failed", "failed", Question.FAILED),
        column("ISR shrinks", "shrinks", Question.UNPLANNED),
    )
    topics = table_of(
        answers,
        "topics",
        "Topics with the most problems",
        ("topic", "topic"),
        ("total", "trouble"),
        column("illegal", "illegal", Question.ILLEGAL_PARTITIONS),
        *counted,
        column("unclean", "unclean", Question.UNCLEAN),
        column("times offline", "offlines", Question.OFFLINE),
        column("no live leader", "leaderless_ms", Question.LEADERLESS),
        column("time offline", "offline_ms", Question.OFFLINE),
    )
    brokers = table_of(
        answers,
        "brokers",
        "Brokers with the most problems",
        ("broker", "broker"),
        ("total", "trouble"),
        column("illegal", "illegal", Question.ILLEGAL_REPLICAS),
        *counted,
    )
    text = (
        "Illegal and failed transitions, lost rows, unplanned ISR shrinks, unclean elections, and "
        "times that partitions went to OfflinePartition, and their sum. Replicas that leave an ISR "
        "because of a controlled shutdown, a reassignment or the deletion of a topic do not count."
    )
    return Section("Problems", text, there([topics, brokers]))


def _damaged(loss: DataLoss) -> Section:
    kinds = Table("Damaged lines by problem", ("problem", "lines"), list(loss.kinds.items()))
    places = _places("Damaged lines", "place", loss.damaged)
    text = "Lines that could not be read. Places in ZooKeeper's files are byte offsets."
    return Section("Damaged lines", text, there([kinds, places]))


def _places(title: str, where: str, listing: Listing) -> Table:
    rows = [(place_text(row), row["problem"], row["text"]) for row in listing.rows]
    return Table(title, (where, "problem", "text"), rows, listing.total)


def _limits(limits: Limits) -> Section:
    rows = [
        (question, reading, answer.how, answer.why)
        for question, answers in limits.items()
        for reading, answer in answers
    ]
    text = "Questions that these logs answer only in part or not at all."
    table = Table("Limited questions", ("question", "source", "answered", "reason"), rows)
    return Section("Limits of these sources", text, [table] if rows else [])
