"""What is said is true at the moment of which it speaks, an hour and a day later, in simulated
shops whose truth is known; and the guide's table of statements has every sentence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import pytest

from relevanced.daemon.exporter import Reading
from relevanced.daemon.http import changes
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.changes.shops import (
    BEGIN_MS,
    METRICS,
    PANE_MS,
    PER_HOUR,
    PLAN,
    SEGMENTS,
    Fault,
    Shop,
    Watch,
    index,
    ranking,
)

GUIDE: Final = Path(__file__).parents[4] / "deploy/guide/statements.md"
SEED: Final = 36
BEGIN_H: Final = 22 * 24 + 9.0
END_H: Final = BEGIN_H + 26
MOMENTS: Final = (-1, 0.6, 1, 2, 12, 25, 26.25, 27, 28, 40, 51)
"""Hours from the onset; the repair is at 26."""
NEAR_H: Final = 0.6
"""What is repaired is told as open until so much has settled after it."""
BETTER_H: Final = 4.0
"""Since when a score is better is known by hours: its level may be of a mixture until then."""
TOLERANCE: Final = 0.03
"""Of means: over a day they are 2 % higher and lower, and at first little is known."""
DE: Final = {0: "DE"}
SHOPS: Final[Mapping[str, Sequence[Fault]]] = {
    "quiet": (),
    "ranking of DE": (Fault(ranking(0.6, 0.15), BEGIN_H, END_H, DE),),
    "index": (Fault(index(0.15), BEGIN_H, END_H),),
    "ranking of DE, half repaired": (
        Fault(ranking(0.6, 0.15), BEGIN_H, END_H, DE),
        Fault(ranking(0.25, 0.05), END_H, END_H + 90, DE),
    ),
}
LOOKS_LIKE: Final = {"ranking of DE": "RANKING", "index": "RETRIEVAL"}
SUBJECT: Final = r"(?P<metric>\S+) (?:everywhere|of (?P<grouping>\S+) (?P<segment>\S+)) "
GOOD: Final = re.compile(
    r"Up to .+ search was as good as .+\. A fall of (?P<metric>\S+) by .+ would have been noticed\."
)
NOTICED: Final = re.compile(r"by (\d+) % that began before (.+?)(?:, |,? would)")
OVER: Final = re.compile(
    SUBJECT + r"recovered at (?P<end>.+?): for .+? it was (?P<low>[\d.]+), (?P<before>[\d.]+)"
    r" before\."
)
OPEN: Final = re.compile(
    SUBJECT + r"fell from (?P<before>[\d.]+) to (?P<low>[\d.]+) (?:at (?P<onset>[^,]+)"
    r"|between (?P<earliest>[^,]+) and (?P<latest>[^,]+)|before (?P<until>[^,]+)),"
    r" (?:not recovered|better since (?P<better>[^,]+), not as good as before yet)"
    r"(?: by (?P<known>[^;]+); live it is back at (?P<live>[\d.]+) since (?P<end>[^,]+))?\."
)
FAR: Final = re.compile(
    r"Of all searches (?P<now>[\d.]+) % (?P<what>.+) in the last settled hour;"
    r" (?P<usual>[\d.]+) % is usual\."
)
COLUMNS: Final = {"got feedback": 1, "returned no results": 2}


@dataclass(frozen=True)
class Moment:
    """A shop at an instant, in hours since it began."""

    shop: Shop
    faults: Sequence[Fault]
    as_of_h: float

    @property
    def known_h(self) -> float:
        """The end of what has settled."""
        return self.as_of_h - PLAN.timing.settle_ms / HOUR_MS

    def hour(self, text: str) -> float:
        """The hour of `10:40`, of the day of now, or of `20 Nov 10:40`."""
        now = datetime.fromtimestamp((BEGIN_MS + self.as_of_h * HOUR_MS) / 1000, UTC)
        day = f"{now:%d %b} " if len(text) <= len("10:40") else ""
        at = datetime.strptime(f"{now.year} {day}{text}", "%Y %d %b %H:%M").replace(tzinfo=UTC)
        return (at.timestamp() * 1000 - BEGIN_MS) / HOUR_MS

    def drop(self, metric: str) -> float:
        """How much lower the whole is since it broke, until it was repaired."""
        if not self.faults or self.known_h < self.faults[0].begin_h + 0.1:
            return 0.0
        begin_h, end_h = self.faults[0].begin_h, self.faults[-1].end_h
        if self.known_h > end_h + NEAR_H:
            return 0.0
        now = self.mean(metric, ("all", "all"), begin_h, min(self.known_h, end_h))
        return 1 - now / self.mean(metric, ("all", "all"), begin_h - 12, begin_h)

    def share(self, what: str, since_h: float, until_h: float) -> float:
        """How many of 100 searches did this."""
        rows = self.shop.rows[round(since_h * PER_HOUR) : round(until_h * PER_HOUR)]
        counts = rows[:, SEGMENTS.index(("all", "all"))].sum(axis=0)
        return float(100 * counts[COLUMNS[what]] / counts[0])

    def mean(self, metric: str, segment: tuple[str, str], since_h: float, until_h: float) -> float:
        """The mean of all searches of a segment."""
        row = self.shop.rows[round(since_h * PER_HOUR) : round(until_h * PER_HOUR)].sum(axis=0)
        which = METRICS.index(metric)
        scored, total = row[SEGMENTS.index(segment), PLAN.metric_column(which) :][:2]
        return float(total / scored / PLAN.metrics[which].unit)


def untruths(sentence: str, at: Moment) -> Iterator[str]:
    """What is wrong with a sentence about a change, or about that there is none."""
    forms = (GOOD, OVER, OPEN, FAR)
    said = next((found for form in forms if (found := form.fullmatch(sentence))), None)
    if said is None:
        yield "its form is not known"
    elif said.re is FAR:
        now = at.share(said["what"], at.known_h - 1, at.known_h)
        usual = at.share(said["what"], at.known_h - 49, at.faults[0].begin_h)
        if abs(float(said["now"]) - now) > 1 or abs(float(said["usual"]) - usual) > 1:
            yield f"they were {now:.1f} and {usual:.1f}"
    elif said.re is GOOD:
        for drop, began in NOTICED.findall(sentence):
            if at.drop(said["metric"]) > int(drop) / 100 and at.faults[0].begin_h < at.hour(began):
                yield "it was not noticed"
    else:
        yield from _untruths(said.groupdict(), at, is_open=said.re is OPEN)


def _untruths(said: Mapping[str, str | None], at: Moment, *, is_open: bool) -> Iterator[str]:
    segment = (said["grouping"] or "all", said["segment"] or "all")
    first, last = at.faults[0], at.faults[-1]
    if segment[1] != first.where.get(0, "all"):
        yield "it did not break there"
    if not first.begin_h < at.known_h or is_open != (at.known_h < last.end_h + NEAR_H * is_open):
        yield "it is not so now"
    metric, is_better = said["metric"] or "", said.get("better") is not None
    low_from = last.begin_h if is_better else first.begin_h
    low_until = min(at.known_h, last.end_h if is_better else first.end_h)
    levels = {
        "before": at.mean(metric, segment, first.begin_h - 12, first.begin_h),
        "low": at.mean(metric, segment, max(low_from, low_until - 24), low_until),
    }
    if is_better and at.known_h < last.begin_h + BETTER_H:
        del levels["low"]
    levels["live"] = levels["before"]
    for name, level in levels.items():
        if (text := said.get(name)) and abs(float(text) - level) > TOLERANCE * (
            1 + (name == "live")
        ):
            yield f"{name}: it was {level:.3f}"
    yield from _wrong_times(said, at)


def _wrong_times(said: Mapping[str, str | None], at: Moment) -> Iterator[str]:
    first, last = at.faults[0], at.faults[-1]
    times = {"onset": (first.begin_h, 1 / 6), "end": (last.end_h, 1 / 6)}
    times["better"] = (first.end_h, BETTER_H / 3)
    for name, (hour, off_h) in times.items():
        if (text := said.get(name)) and abs(at.hour(text) - hour) > off_h:
            yield f"{name}: it was {at.as_of_h - hour:.1f} h ago"
    if text := said.get("earliest"):
        if not at.hour(text) <= first.begin_h <= at.hour(said["latest"] or "") + 1 / 60:
            yield "the onset lies outside"
    if (text := said.get("until")) and at.hour(text) < first.begin_h:
        yield "the onset lies behind"


def listed() -> re.Pattern[str]:
    """Whole sentences of the guide's table, one behind the other."""
    cells = (line.split(" | ")[0] for line in GUIDE.read_text().splitlines())
    rows = [row for cell in cells for row in re.findall(r"`([^`]+)`", cell) if cell[:3] == "| `"]
    whole = (row for row in rows if row.endswith("."))
    any_row = "|".join(".+?".join(map(re.escape, row.split("…"))) for row in whole)
    return re.compile(f"(?:(?:{any_row})(?: |$))+")


def readings(shop: Shop, hours: Sequence[float]) -> Iterator[tuple[float, Reading]]:
    """(hours from the onset, what is published then) by an exporter that looks at these times."""
    watch = Watch(shop)
    for hour in hours:
        as_of_ms = BEGIN_MS + round((BEGIN_H + hour) * PER_HOUR) * PANE_MS
        lanes = [shop.lane(as_of_ms)]
        reading = watch.publisher.publish(lanes, as_of_ms, with_series=False).reading
        assert reading is not None
        yield hour, reading


@pytest.mark.parametrize("name", SHOPS)
def test_what_is_said_is_true(name: str) -> None:
    faults, table = SHOPS[name], listed()
    shop = Shop(BEGIN_H / 24 + 2.5, 5_000, SEED, faults)
    spoken = set[str]()
    for hour, reading in readings(shop, MOMENTS):
        told, at = changes(reading, "1h", "settled", {}), Moment(shop, faults, BEGIN_H + hour)
        detail = told.headline.detail
        for sentence in (told.headline.text, *(one.text for one in (*told.open, *told.closed))):
            assert not [*untruths(sentence, at)], (SEED, hour, sentence)
            assert table.fullmatch(sentence), sentence
            spoken.add(sentence)
        assert not detail or table.fullmatch(detail), detail
        if "Looks like" in detail and (looks_like := LOOKS_LIKE.get(name)):
            assert f"Looks like {looks_like}:" in detail
    assert len(spoken) > 5


@pytest.mark.parametrize("against", ["worst", "hour", "day", "weeks"])
def test_hours_of_a_fault_that_is_over_make_nothing_look_better_or_worse(
    against: Literal["worst", "hour", "day", "weeks"],
) -> None:
    """From the end of a fault of five hours on, in every row that is compared with its hours."""
    shop = Shop(
        BEGIN_H / 24 + 8, 5_000, SEED, [Fault(ranking(0.6, 0.15), BEGIN_H, BEGIN_H + 5, DE)]
    )
    verdicts = set[str]()
    for hour, reading in readings(shop, (1, 3, 5.8, 6, 7, 11, 28, 30, 171)):
        for window in ("1h", "24h") if hour > 5 else ():
            for row in changes(reading, window, "settled", {}, against).changes:
                assert row.verdict not in ("better", "worse"), (SEED, hour, window, row)
                verdicts.add(row.verdict)
    assert "recovered" in verdicts
