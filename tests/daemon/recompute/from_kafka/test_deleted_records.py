"""What Kafka has deleted may have been of any hour, unless what it still has tells."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest

from relevanced.daemon.config import Config, LogEnd, load
from relevanced.daemon.kafka import LogSpan
from relevanced.daemon.lane import Pending
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute import from_kafka
from relevanced.daemon.recompute.from_kafka import RecordsGone
from relevanced.daemon.recompute.replay_kafka import computed_hours
from relevanced.daemon.recompute.stored_logs import StoredLogs
from relevanced.daemon.storage import Head, LogMark, WriterState

NOON: Final = 1_795_176_000_000
SPAN: Final = range(NOON, NOON + 3 * HOUR_MS, HOUR_MS)
MONTH: Final = 30 * 24 * HOUR_MS


class Log:
    """The log of one topic-partition from an offset on, in the place of one in Kafka."""

    def __init__(self, times_ms: Sequence[int], deleted: int = 0, *, are_events: bool = True):
        self.times_ms, self.earliest, self.end = times_ms, deleted, len(times_ms)
        self._are_events = are_events

    def begin(self, since_ms: int) -> int:
        left = range(self.earliest, self.end)
        return next((n for n in left if self.times_ms[n] >= since_ms), self.end)

    def record(self, offset: int) -> Any:
        at, event = self.times_ms[offset], dict(type="impression", query="a", items=["x"])
        event |= {"impression_id": f"{id(self)}-{offset}", "timestamp": at}
        value = json.dumps(event).encode() if self._are_events else b"no event"
        fields = dict(timestamp=at, timestamp_type=0, key=None, value=value, headers=())
        return SimpleNamespace(topic="", partition=0, offset=offset, **fields)


class LaneLog:
    """See `kafka.LaneLog`."""

    share_read = 1.0

    def __init__(self, logs: Mapping[str, Log], begin: Mapping[str, int]) -> None:
        self._logs, self.next_offsets = logs, {**begin}
        self.spans = {n: LogSpan(begin[n], log.end, log.earliest) for n, log in logs.items()}

    @property
    def unread(self) -> list[str]:
        return [name for name, at in self.next_offsets.items() if at < self.spans[name].end]

    @property
    def is_read(self) -> bool:
        return not self.unread

    async def take(self, name: str, most: int) -> list[Any]:
        first = self.next_offsets[name]
        self.next_offsets[name] = until = min(first + most, self.spans[name].end)
        return [self._logs[name].record(offset) for offset in range(first, until)]


def hours(
    monkeypatch: pytest.MonkeyPatch,
    *lanes: Mapping[str, Log],
    heads: Sequence[Head] = (),
    span: range = SPAN,
    workers: Config | None = None,
) -> list[int]:
    """The impressions of each hour of the span that is whole. `heads`: of the lanes that workers
    have."""

    class LaneLogs:
        def __init__(self, _: object) -> None:
            self.lanes = len(lanes)

        async def __aenter__(self) -> "LaneLogs":
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def offsets(self, lane: int, at: object, now_ms: int) -> dict[str, int]:
            logs = lanes[lane].items()
            return {n: log.end if at is LogEnd.LATEST else log.begin(now_ms) for n, log in logs}

        async def open(self, lane: int, begin: Mapping[str, int], *_: object) -> LaneLog:
            return LaneLog(lanes[lane], begin)

    async def show(_: float) -> None: ...

    async def stored_heads(_: object) -> dict[int, Head]:
        return dict(enumerate(heads))

    monkeypatch.setattr(from_kafka, "stored_heads", stored_heads)
    monkeypatch.setattr(from_kafka, "LaneLogs", LaneLogs)
    topics = json.dumps(list(lanes[0]))
    config = load(f"[kafka]\ntopics = {topics}\n[segments]\ngroupings = []\n", {}, "test")
    found = asyncio.run(computed_hours(config, span, show, workers)).clicks
    return [int(found.rows[start]["all", "all"][0]) for start in found.starts]


TIMES: Final = range(NOON, SPAN.stop + HOUR_MS, 6 * 60_000)


def test_hours_are_refused_where_a_partition_has_lost_all_of_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert hours(monkeypatch, {"t": Log(TIMES)}, {"t": Log(TIMES)}) == [20, 20, 20]
    emptied = {"t": Log(TIMES, len(TIMES))}
    with pytest.raises(RecordsGone, match=r"records of t\[1\], .* recorded events as FILE"):
        hours(monkeypatch, {"t": Log(TIMES)}, emptied)
    with pytest.raises(RecordsGone, match=r"records of t\[0\], "):
        hours(monkeypatch, {"t": emptied["t"], "u": Log(TIMES)})


LEAD: Final = 4 * HOUR_MS
"""Before the hours, at least as much as they need."""
EMPTIED: Final = {"t": Log(TIMES, len(TIMES))}
ELSEWHERE: Final = Head("a", 1, {"t": 0})


GAP: Final = {"gap_records": {"t": 99}}
GAP_ELSEWHERE: Final = {"gap_records": {"u": 99}}


def read_up_to(time_ms: int | None, last: int = len(TIMES) - 1, pending_ms: int = 0) -> Head:
    """The head of a lane at the end of a log of which it has read so far."""
    state = WriterState(pending={"t": Pending({"q": pending_ms}, 1)} if pending_ms else {})
    marks = {"t": LogMark(last_offset=last)}
    return Head("a", 1, {"t": len(TIMES)}, {"t": time_ms}, state=state, logs=marks)


def test_partition_whose_lane_has_read_all_that_was_deleted_is_missing_from_no_later_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was quiet for longer than Kafka keeps records."""
    heads, lanes = [ELSEWHERE, read_up_to(NOON - LEAD)], [{"t": Log(TIMES)}, EMPTIED]
    assert hours(monkeypatch, *lanes, heads=heads) == [10] * 3
    both, marks = {"t": Log(TIMES, len(TIMES)), "u": Log(TIMES)}, {"t": NOON - LEAD, "u": NOON}
    logs = dict.fromkeys(marks, LogMark(last_offset=len(TIMES) - 1))
    head = Head("a", 1, dict.fromkeys(marks, len(TIMES)), marks, logs=logs)
    assert hours(monkeypatch, both, heads=[head]) == [10] * 3


def test_hours_up_to_the_last_event_that_a_lane_read_are_refused_with_the_first_whole_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lanes = [{"t": Log(TIMES)}, EMPTIED]
    for head in (read_up_to(NOON), read_up_to(NOON - LEAD, pending_ms=NOON)):
        with pytest.raises(RecordsGone, match=r"of t\[1\], .* Give --from 2026-11-20T14:00:00"):
            hours(monkeypatch, *lanes, heads=[ELSEWHERE, head])
    # The last one: some were deleted before it read them, so that its offset went to the end.
    for head in (read_up_to(None), read_up_to(NOON - LEAD, len(TIMES) - 60)):
        with pytest.raises(RecordsGone, match="no hour is whole"):
            hours(monkeypatch, *lanes, heads=[ELSEWHERE, head])


def test_hours_are_refused_where_a_lane_has_gone_over_records_that_it_did_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last one it read, but that may be no event, and so tell nothing of their times."""
    lanes = [{"t": Log(TIMES)}, EMPTIED]
    read = read_up_to(NOON - LEAD)
    assert hours(monkeypatch, *lanes, heads=[ELSEWHERE, replace(read, counts=GAP_ELSEWHERE)])
    with pytest.raises(RecordsGone, match=r"of t\[1\], .* no hour is whole"):
        hours(monkeypatch, *lanes, heads=[ELSEWHERE, replace(read, counts=GAP)])


def test_hours_are_refused_where_no_event_is_left_after_what_was_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RecordsGone, match=r"records of t\[1\], "):
        hours(monkeypatch, {"t": Log(TIMES)}, {"t": Log(TIMES, 5, are_events=False)})


QUIET: Final = {
    "never written to": Log([]),
    "nothing since": Log([NOON - MONTH] * 3),
    "nothing since, and older ones deleted": Log([NOON - MONTH] * 3, 2),
    "no event, and older ones deleted": Log([NOON - MONTH] * 3 + [NOON], 2, are_events=False),
}


@pytest.mark.parametrize("quiet", QUIET)
def test_partition_that_was_quiet_before_the_hours_lacks_nothing(
    quiet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hours(monkeypatch, {"t": Log(TIMES)}, {"t": QUIET[quiet]}) == [10, 10, 10]


DENSE: Final = range(NOON, SPAN.stop + HOUR_MS, 5_000)
PER_HOUR: Final = HOUR_MS // DENSE.step
AGAIN: Final = DENSE[PER_HOUR:]
"""Of a topic that was created again an hour after noon: its log begins at offset 0."""
REPLACED: Final = {"replaced_logs": {"t": 2}}
ANEW: Final = NOON + HOUR_MS
"""Of a lane that began anew later: it does not know any more that a log was replaced."""


def replaced(*logs: str, counts: Mapping[str, Mapping[str, int]] = REPLACED) -> Head:
    return Head("a", 1, dict.fromkeys(logs, 0), counts=counts)


def anew(*logs: str) -> Head:
    return Head("a", 1, dict.fromkeys(logs, 0), since_ms=ANEW)


@pytest.mark.parametrize("head_of", [replaced, anew])
def test_hours_before_a_topic_was_created_again_are_left_out(
    head_of: Callable[..., Head], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka shows nothing of it: the lane alone knows."""
    lanes, heads = [{"t": Log(DENSE)}, {"t": Log(AGAIN)}], [ELSEWHERE, head_of("t")]
    assert hours(monkeypatch, *lanes) == [PER_HOUR, 2 * PER_HOUR, 2 * PER_HOUR], "nobody knows"
    assert hours(monkeypatch, *lanes, heads=heads) == [2 * PER_HOUR]
    both = {"t": Log(AGAIN), "u": Log(DENSE)}
    assert hours(monkeypatch, both, heads=[head_of("t", "u")]) == [2 * PER_HOUR]
    before = range(NOON, ANEW, HOUR_MS)
    assert hours(monkeypatch, both, heads=[head_of("t", "u")], span=before) == []


@pytest.mark.parametrize("head_of", [replaced, anew])
def test_topic_that_was_created_again_before_the_hours_lacks_nothing(
    head_of: Callable[..., Head], monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = [ELSEWHERE, replace(head_of("t"), since_ms=NOON - MONTH)]
    since = Log([NOON - MONTH, *range(NOON - LEAD, DENSE.stop, DENSE.step)])
    lanes = {"t": since}, {"t": Log([NOON - MONTH])}
    assert hours(monkeypatch, *lanes, heads=heads) == [PER_HOUR] * 3
    assert hours(monkeypatch, lanes[0], lanes[0], heads=heads) == [2 * PER_HOUR] * 3


@pytest.mark.parametrize("log", [Log([]), Log(AGAIN, are_events=False)], ids=["empty", "no event"])
def test_hours_are_refused_where_nothing_dates_a_topic_that_was_created_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = [{"t": Log(TIMES)}, {"t": log}]
    assert hours(monkeypatch, *lanes, heads=[ELSEWHERE, replaced("t", counts=GAP)]) == [10] * 3
    with pytest.raises(RecordsGone, match=r"of t\[1\], .* no hour is whole"):
        hours(monkeypatch, *lanes, heads=[ELSEWHERE, replaced("t")])
    with pytest.raises(RecordsGone, match=r"of t\[1\], .* Give --from 2026-11-20T15:00"):
        hours(monkeypatch, *lanes, heads=[ELSEWHERE, anew("t")])


def test_other_logs_of_a_lane_do_not_date_an_empty_one_that_was_created_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = {"t": Log([]), "u": Log(DENSE)}
    with pytest.raises(RecordsGone, match=r"records of t\[0\], .* no hour is whole"):
        hours(monkeypatch, lane, heads=[replaced("t", "u")])
    assert hours(monkeypatch, lane, heads=[anew("t", "u")]) == [PER_HOUR]  # its beginning does


def test_events_of_a_log_before_it_was_replaced_may_be_later_than_all_that_its_lane_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lanes, read = [{"t": Log(TIMES)}, EMPTIED], read_up_to(NOON - LEAD)
    with pytest.raises(RecordsGone, match=r"of t\[1\], .* no hour is whole"):
        hours(monkeypatch, *lanes, heads=[ELSEWHERE, replace(read, counts=REPLACED)])
    with pytest.raises(RecordsGone, match=r"of t\[1\], .* Give --from 2026-11-20T14:00"):
        hours(monkeypatch, *lanes, heads=[ELSEWHERE, replace(read, since_ms=NOON)])


def test_what_lanes_read_in_another_cluster_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    heads, lanes = [ELSEWHERE, read_up_to(NOON - LEAD)], [{"t": Log(TIMES)}, EMPTIED]
    elsewhere = load('[kafka]\nbootstrap_servers = ["elsewhere:9092"]\ntopics = ["t"]\n', {}, "")
    assert hours(monkeypatch, *lanes, heads=heads) == [10] * 3
    with pytest.raises(RecordsGone, match=r"of t\[1\], .* no hour is whole"):
        hours(monkeypatch, *lanes, heads=heads, workers=elsewhere)


def test_what_lanes_know_of_a_log_is_known_where_it_is_of_another_lane() -> None:
    marks = {"t": LogMark("id")}
    heads = {2: replace(anew("t", "u"), logs=marks, counts=REPLACED), 3: replaced("v")}
    one = StoredLogs.of(0, ["t/2", "t/3", "v/2"], heads)
    assert one == StoredLogs({"t/2": LogMark("id")}, frozenset({"t/2"}), ANEW)
    divided = StoredLogs.of(2, ["t"], {0: Head("a", 1, {"t/2": 0, "t/3": 0}, counts=OF_ONE)})
    assert divided.replaced == {"t"} and divided.since_ms is None
    assert StoredLogs.of(3, ["t"], heads) == StoredLogs()


OF_ONE: Final = {"replaced_logs": {"t/2": 1}}
