"""The page of a run: timeline, sequence diagram before its failure, journal rows and steps.

Made from the run's trace and journal; `klamm drill run --page`, `klamm hunt` and the pytest plugin
write it. A long run does not make a large page: of each list only the last items are shown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import msgspec

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.status import RUNNING
from klamm.lab.actions.action import DEAD
from klamm.lab.drill import Drill
from klamm.lab.page.page_sequence import Concern, concern_of, row_values, sequence_diagram
from klamm.lab.page.trace import (
    NO_SESSION,
    BrokerState,
    Leadership,
    RunTrace,
)
from klamm.lab.recordings.recordings import Recording
from klamm.lab.run.drill_run import ALWAYS, Outcome, Verdict
from klamm.lab.run.runner import StepResult
from klamm.lab.run.text import OUTCOME_WORDS, check_text
from klamm.report.scales import elapsed_text
from klamm.report.values import (
    Arrow,
    Cell,
    Lane,
    Lanes,
    Marker,
    Page,
    Section,
    Span,
    Table,
    Tone,
)
from klamm.world.explain.journal_text import EventNames, controller_text, summary_text

MOST_ROWS: Final = 60
_MOST_MARKS: Final = 2_000
_MOST_SPANS: Final = 100
_MOST_PARTITIONS: Final = 20
_MOST_BROKERS: Final = 16
_IDLE_SHARE: Final = 0.25
_IDLE_MS: Final = 1_000
_LEAST_MS: Final = 10
_MARGIN: Final = 0.03
_KINDS: Final = {
    Kind.CONTROLLER_ELECTED: "controllers",
    Kind.PARTITION_TRANSITION: "elections",
    Kind.REASSIGNMENT_PHASE: "reassignments",
    Kind.TOPIC_DELETION_STARTED: "deletions",
    Kind.TOPIC_DELETION_HALTED: "deletions",
    Kind.TOPIC_DELETED: "deletions",
}


class Headline(msgspec.Struct, frozen=True):
    """The head of a run's page.

    ``verdict``: what was expected but did not hold, or that all held. ``end``: the same in one
    line, for the end of the sequence diagram, which is at ``at_ms``. ``row``: the number of the
    last journal row at that time, if known. The page is about the partitions and topics that
    ``words`` names. ``preparations``: how many of the first steps the timeline leaves out.
    """

    title: str
    verdict: str
    tone: Tone
    facts: tuple[tuple[str, str], ...]
    at_ms: float
    end: str
    words: str = ""
    row: int | None = None
    preparations: int = 0


def drill_headline(drill: Drill | Recording, verdict: Verdict, world: str, repeat: str) -> Headline:
    """Return the head of a drill's page. ``world`` is, for example, "simulated, seed 0"."""
    name = drill.name
    failures, has_passed = verdict.failures, verdict.outcome is Outcome.PASSED
    after = f"{OUTCOME_WORDS[verdict.outcome]} after {elapsed_text(verdict.at_ms)}"
    facts = [("drill", f"{name}: {drill.about}"), ("world", world), ("outcome", after)]
    facts += [("seen", failure.seen) for failure in failures[:3]]
    facts += [("at", failure.place) for failure in failures[:1]]
    first = failures[0] if failures else None
    seen = "" if first is None else first.seen.partition("; at ")[0]
    expected = "" if first is None else first.expected
    is_invariant = expected.startswith(ALWAYS)
    violated = expected.removeprefix(ALWAYS)
    what = f"violated {violated}" if is_invariant else f"expected {expected}"
    end = f"violated {violated.partition(': ')[0]}" if is_invariant else what
    return Headline(
        title=f"{name} {OUTCOME_WORDS[verdict.outcome]}",
        verdict=f"{name} {after}." if first is None else f"{what[0].upper()}{what[1:]}",
        tone=Tone.GOOD if has_passed else Tone.BAD,
        facts=(*facts, ("repeat it with", repeat)),
        at_ms=verdict.at_ms,
        end=f"{end}; seen {seen}" if first is not None else after,
        words="" if first is None else f"{seen} {'' if is_invariant else expected}",
        row=None if first is None else first.row,
        preparations=drill.preparations if isinstance(drill, Drill) else 0,
    )


def run_page(head: Headline, trace: RunTrace, results: Iterable[StepResult] = ()) -> str:
    """Return the page of a run as HTML. ``results``: the results of its finished steps."""
    from klamm.report.page import page_html  # imported late: most runs make no page

    trace.observe()
    concern = concern_of(head.words, trace.rows)
    view = _View(head, trace, concern)
    is_failure = head.tone is Tone.BAD
    end = Arrow(int(head.at_ms), head.end, tone=head.tone)
    rows = _rows_table(head, trace, concern)
    before = "Before the failure" if is_failure else "The end of the run"
    page = Page(
        title=head.title,
        verdict=head.verdict,
        tone=head.tone,
        facts=head.facts,
        sections=(
            Section("Timeline", "", (view.timeline(),)),
            Section(before, "", (sequence_diagram(trace, concern, view.lifeline, end),)),
            Section("Journal", "", (rows,)),
            Section("Steps", "", (_steps_table(trace, results),)),
        ),
        is_elapsed=True,
    )
    return page_html(page)


class _View:
    """The timeline of a run, up to its end or to the last change before a long idle time."""

    def __init__(self, head: Headline, trace: RunTrace, concern: Concern) -> None:
        self._head = head
        self._concern = concern
        self._trace = trace
        self._elected = [row for row in trace.rows if row.kind == Kind.CONTROLLER_ELECTED]
        changes = [0.0, *(begun.at_ms for begun in trace.steps)]
        changes += [states[-1][0] for states in trace.states.values()]
        changes += [row.t_ms - trace.started_ms for row in trace.rows[-1:]]
        self._idle_from_ms, end_ms = max(changes), max(head.at_ms, trace.end_ms)
        own = [begun.at_ms for begun in trace.steps][head.preparations :]
        begin_ms = own[0] if trace.count == len(trace.events) and own else 0.0
        busy_ms, idle_ms = self._idle_from_ms - begin_ms, end_ms - self._idle_from_ms
        self._is_cut = idle_ms > max(_IDLE_SHARE * busy_ms, _IDLE_MS)
        if self._is_cut:
            end_ms = self._idle_from_ms + max(_IDLE_SHARE * busy_ms, _LEAST_MS)
        margin_ms = max((end_ms - begin_ms) * _MARGIN, 1)
        self._begin_ms = max(int(begin_ms - margin_ms), 0)
        self._axis_end_ms = int(end_ms + margin_ms)
        self._end_ms = max(self._axis_end_ms, int(head.at_ms), int(trace.end_ms))

    def timeline(self) -> Lanes:
        """Return the lanes of the steps, faults, controllers, brokers and some partitions."""
        partitions = self._partitions()
        lanes = [Lane("steps", list(self._steps()), is_labelled=True)]
        lanes += self._faults("faults", None)
        lanes += [Lane("controller", list(self._controllers()))]
        deposed = list(self._deposed())
        lanes += [Lane("deposed controller", deposed)] if deposed else []
        brokers = sorted(self._trace.states, key=lambda id_: -len(self._trace.states[id_]))
        for broker_id in sorted(brokers[:_MOST_BROKERS]):
            lanes.append(Lane(f"broker {broker_id}", self._broker(broker_id)))
            lanes += self._faults(f"broker {broker_id}: faults", broker_id)
        lanes += partitions[:_MOST_PARTITIONS]
        note = ""
        if len(brokers) > _MOST_BROKERS:
            note += f"Only the {_MOST_BROKERS} brokers with the most changes. "
        if len(partitions) > _MOST_PARTITIONS:
            note += f"Only {_MOST_PARTITIONS} of {len(partitions):,} partitions. "
        if any(len(lane.spans) > _MOST_SPANS for lane in lanes):
            note += f"Only the last {_MOST_SPANS} changes of a lane. "
        if self._is_cut:
            note += (
                f"No step, journal row or change of a broker from "
                f"{elapsed_text(self._idle_from_ms)} to {elapsed_text(self._head.at_ms)}: the time "
                "axis ends before that. "
            )
        return Lanes(
            "Steps, faults, controllers, brokers, and partitions that failed or had no leader",
            [replace(lane, spans=self._clipped(lane.spans)[-_MOST_SPANS:]) for lane in lanes],
            self._begin_ms,
            self._axis_end_ms,
            note,
            marks=tuple(mark for mark in self._marks() if mark.t_ms >= self._begin_ms),
        )

    def _clipped(self, spans: Sequence[Span]) -> list[Span]:
        """Return the parts of spans that the time axis shows."""
        begin_ms, end_ms = self._begin_ms, self._axis_end_ms
        return [
            span._replace(begin_ms=max(span.begin_ms, begin_ms), end_ms=min(span.end_ms, end_ms))
            for span in spans
            if span.begin_ms < end_ms and (span.end_ms > begin_ms or span.begin_ms >= begin_ms)
        ]

    def lifeline(self, name: str) -> Sequence[Span]:
        """Return the states of a lifeline of the sequence diagram."""
        role, _, number = name.partition(" ")
        if not number:
            return (Span(0, self._end_ms, name),)
        spans = []
        for span in self._broker(int(number)):
            if span.text == DEAD:
                continue
            tone = Tone.PLAIN if span.text == RUNNING else Tone.WARNING
            spans.append(span._replace(tone=tone))
        if role == "controller":
            spans += [
                span._replace(tone=Tone.GOOD)
                for span in self._controllers()
                if span.text.startswith(f"{number} ") and span.tone is Tone.GOOD
            ]
        return spans

    def _at(self, row: JournalRow) -> int:
        return int(row.t_ms - self._trace.started_ms)

    def _steps(self) -> Iterator[Span]:
        for begun in self._trace.steps:
            at_ms = int(begun.at_ms)
            yield Span(at_ms, at_ms, begun.step.name)

    def _broker(self, broker_id: int) -> list[Span]:
        states = list(self._trace.states[broker_id])
        ends = [*(at_ms for at_ms, _ in states[1:]), self._end_ms]
        return [
            Span(int(at_ms), int(until_ms), state.text, _tone(state))
            for (at_ms, state), until_ms in zip(states, ends, strict=True)
            if until_ms > at_ms or len(states) == 1
        ]

    def _faults(self, name: str, broker_id: int | None) -> list[Lane]:
        """Return a lane with the faults that concern a broker, or no broker; none without them."""
        spans = [
            Span(int(period.begin_ms), int(period.end_ms), text, Tone.WARNING)
            for period in self._trace.faults.until(self._end_ms)
            for broker_ids, text in (period.fault,)
            if broker_id in (broker_ids or (None,))
        ]
        return [Lane(name, spans, is_labelled=True)] if spans else []

    def _process(self, broker_id: int, begin_ms: float, end_ms: float) -> Iterator[Span]:
        """Yield the states of a broker between two times."""
        for span in self._broker(broker_id):
            begin, end = max(span.begin_ms, int(begin_ms)), min(span.end_ms, int(end_ms))
            if begin < end:
                yield span._replace(begin_ms=begin, end_ms=end)

    def _controllers(self) -> Iterator[Span]:
        """Yield who is controller, and from when on its broker is not running."""
        ends = [*(self._at(row) for row in self._elected[1:]), self._end_ms]
        for row, end_ms in zip(self._elected, ends, strict=True):
            name = f"{row.controller} (epoch {row.epoch})"
            for span in self._process(row.controller, self._at(row), end_ms):
                is_running = span.text == RUNNING
                text = name if is_running else f"{row.controller} {span.text}"
                yield span._replace(text=text, tone=Tone.GOOD if is_running else Tone.BAD)

    def _deposed(self) -> Iterator[Span]:
        """Yield the times in which a controller has not noticed yet that another one is elected."""
        gone = {
            (row.controller, row.epoch): self._at(row)
            for row in reversed(self._trace.rows)
            if row.kind in (Kind.CONTROLLER_RESIGNED, Kind.CONTROLLER_MOVED)
        }
        for row, successor in zip(self._elected, self._elected[1:], strict=False):
            begin_ms = self._at(successor)
            end_ms = gone.get((row.controller, row.epoch), self._end_ms)
            for span in self._process(row.controller, begin_ms, end_ms):
                if span.text.startswith(DEAD):
                    break
                text = f"{row.controller} (epoch {row.epoch}) {span.text}"
                yield span._replace(text=text, tone=Tone.WARNING)

    def _partitions(self) -> list[Lane]:
        """Return leader and ISR over time of partitions that failed or had no live leader.

        The partitions that failed come first.
        """
        found = []
        for tp, changes in sorted(self._trace.partitions.items()):
            spans = list(self._leaders(changes))
            leaderless_ms = sum(at.end_ms - at.begin_ms for at in spans if at.tone is Tone.BAD)
            if leaderless_ms or tp in self._concern.partitions:
                rank = (tp not in self._concern.partitions, -leaderless_ms)
                found.append((rank, Lane(str(tp), spans)))
        return [lane for _, lane in sorted(found, key=lambda one: one[0])]

    def _leaders(self, changes: Iterable[Leadership]) -> Iterator[Span]:
        """Yield who leads a partition, and its ISR; without a running leader with tone BAD."""
        spans: list[Span] = []
        for now, end_ms in _until(changes, self._end_ms):
            isr = ",".join(map(str, now.isr))
            if now.leader is None:
                continue
            if now.leader not in self._trace.states:
                spans.append(Span(int(now.at_ms), end_ms, f"no leader, ISR {isr}", Tone.BAD))
                continue
            for span in self._process(now.leader, now.at_ms, end_ms):
                is_live = span.text in (RUNNING, NO_SESSION)
                text = f"leader {now.leader}{'' if is_live else f' {span.text}'}, ISR {isr}"
                spans.append(span._replace(text=text, tone=Tone.PLAIN if is_live else Tone.BAD))
        for (text, tone), same in groupby(spans, key=lambda span: (span.text, span.tone)):
            joined = list(same)
            yield Span(joined[0].begin_ms, joined[-1].end_ms, text, tone)

    def _marks(self) -> Iterator[Marker]:
        for row in self._trace.rows[-_MOST_MARKS:]:
            kind = _KINDS.get(Kind(row.kind))
            if kind is None or (kind == "elections" and row.leader in (None, row.prev_leader)):
                continue
            text = summary_text(row_values(row))
            if row.kind == Kind.CONTROLLER_ELECTED:
                text += f": {controller_text(row_values(row))}"
            yield Marker(self._at(row), kind, text)
        if self._head.tone is Tone.BAD:
            at_ms = min(int(self._head.at_ms), self._axis_end_ms)
            yield Marker(at_ms, "failure", self._head.verdict, Tone.BAD)


def _until(changes: Iterable[Leadership], end_ms: int) -> Iterator[tuple[Leadership, int]]:
    """Yield each change with the time of the next one."""
    listed = list(changes)
    ends = [*(int(change.at_ms) for change in listed[1:]), end_ms]
    return zip(listed, ends, strict=True)


def _tone(state: BrokerState) -> Tone:
    if state == BrokerState(RUNNING, True):
        return Tone.GOOD
    return Tone.BAD if state.process == DEAD else Tone.WARNING


def _rows_table(head: Headline, trace: RunTrace, concern: Concern) -> Table:
    """Return the last journal rows that concern the failure, as `klamm journal tail` prints them.

    The last row at the time of the violation is highlighted.
    """
    numbers = [
        n
        for n, row in enumerate(trace.rows, 1)
        if row.topic is None or concern.has(row.topic, row.partition)
    ]
    shown = numbers[-MOST_ROWS:]
    names, cells = EventNames(), []
    first = max(shown[0] - 1_000, 0) if shown else 0
    for n, row in enumerate(trace.rows[first:], first + 1):
        values = row_values(row)
        names.see(values)
        if n in shown:
            cause = names.cause_of(values)
            text = summary_text(values) + (f"  [{cause}]" if cause else "")
            at = elapsed_text(row.t_ms - trace.started_ms)
            line: tuple[Cell, ...] = (n, at, controller_text(values), row.seq, row.kind, text)
            cells.append(line)
    highlighted, note = [], ""
    if head.row is not None and shown:
        highlighted = [bisect_right(shown, head.row) - 1]
        note = f"The violation was seen after row {head.row}. "
    if len(numbers) < len(trace.rows):
        note += f"Rows of other topics are left out: {len(trace.rows) - len(numbers):,}. "
    if len(shown) < len(numbers):
        note += f"Only the last {len(shown)} of {len(numbers):,} rows."
    columns = ("row", "time", "controller", "seq", "kind", "text")
    return Table("Journal rows", columns, cells, None, note, highlighted)


def _steps_table(trace: RunTrace, results: Iterable[StepResult]) -> Table:
    by_step = {id(result.step): result for result in results}
    rows = []
    for begun in trace.steps:
        result = by_step.get(id(begun.step))
        outcome = "not finished"
        if result is not None and result.refusal is not None:
            outcome = f"skipped: {result.refusal}"
        elif result is not None:
            outcome = "; ".join(check_text(check, result) for check in result.checks) or "done"
        rows.append((elapsed_text(begun.at_ms), begun.step.name, outcome))
    last = rows[-200:]
    highlighted = [n for n, row in enumerate(last) if "NOT HELD" in row[2]]
    columns = ("time", "step", "outcome")
    return Table("Steps of the run", columns, last, len(rows), highlighted=highlighted)
