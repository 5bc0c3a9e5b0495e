"""What the stage sends of what is no event, and what a lane makes of it."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from relevanced.daemon.config import (
    decoder_of,
    lane_decoder_of,
    load,
    restarting_keys,
    stage_decoder_of,
)
from relevanced.daemon.errors import SourceReplaced
from relevanced.daemon.events import (
    COUNTED,
    Decoded,
    Impression,
    Limits,
    LogRecord,
    Mark,
    Rejected,
    Skipped,
    decoder,
    read_sent,
)
from relevanced.daemon.kafka import JAVA, PARTITIONERS
from relevanced.daemon.lane import Lane, new_lane
from relevanced.daemon.worker import Message, SourceRun, SourceState, Targets, state_in
from tests.builders import START_MS, TOPIC, plan_with, record
from tests.replica import rows_of
from tests.whole_batch import process_batch

PANE_MS = 10_000
TARGETS = Targets(2, len, {"clicks": 4}, PANE_MS)
LEFT_OUT = Skipped("not_mapped")


def marks(run: SourceRun, offset: int, decoded: Sequence[Decoded]) -> list[Mark]:
    sent = [read_sent(message.value) for message in run.read(offset, None, decoded)]
    return [one for one in sent if isinstance(one, Mark)]


def test_what_is_skipped_is_told_at_places_that_follow_from_the_log() -> None:
    whole = SourceRun("clicks", 3, 990, SourceState(), TARGETS)
    told = [mark for offset in range(990, 2_001) for mark in marks(whole, offset, [LEFT_OUT])]
    assert [(mark.of.place, mark.skipped) for mark in told] == [
        ((1_000, COUNTED), {"not_mapped": 10}),
        ((2_000, COUNTED), {"not_mapped": 1_000}),
    ]
    assert whole.point[0] == 2_000
    again = SourceRun("clicks", 3, 1_000, state_in(""), TARGETS)
    (mark,) = [mark for n in range(1_000, 2_001) for mark in marks(again, n, [LEFT_OUT])]
    assert (mark.of.place, mark.skipped) == (told[1].of.place, told[1].skipped)


def test_how_far_was_read_beyond_what_is_told_is_committed() -> None:
    run = SourceRun("clicks", 3, 1_000, SourceState(5), TARGETS)
    assert run.to_commit == run.point
    assert not [mark for n in range(1_000, 1_300) for mark in marks(run, n, [LEFT_OUT])]
    offset, text = run.to_commit
    assert (offset, state_in(text)) == (1_000, SourceState(5, read=1_300))


def test_what_is_refused_is_told_at_once_and_once() -> None:
    run = SourceRun("clicks", 3, 0, SourceState(), TARGETS)
    bad = Rejected("not_json")
    (mark,) = marks(run, 0, [bad, bad, LEFT_OUT])
    assert (mark.rejected, mark.skipped) == ({"not_json": 2}, {"not_mapped": 1})
    shown = Impression("q1", 3 * PANE_MS, ("a",))
    both = marks(run, 1, [bad, shown])
    assert [(mark.of.met_ms, mark.rejected) for mark in both] == [
        (3 * PANE_MS, {}),
        (3 * PANE_MS, {"not_json": 1}),
    ], "the lane of the source's partition counts it"
    assert run.point[0] == 2 and state_in(run.point[1]).w == 3 * PANE_MS


PLAN = plan_with(rekeyed=True)
LIST = tuple(f"doc-{n}" for n in range(80))


def run_from(offset: int, partitions: int = 1, **told: object) -> SourceRun:
    targets = Targets(partitions, PARTITIONERS[JAVA], {"shown": 1}, PANE_MS, most_bytes=500)
    return SourceRun("shown", 0, offset, SourceState(), targets, **told)  # type: ignore[arg-type]


def shown(number: int, items: tuple[str, ...] = ("a", "b")) -> Impression:
    return Impression(f"q{number}", START_MS + number, items)


def sent(run: SourceRun, *events: Decoded, first: int = 100) -> list[Message]:
    return [m for at, event in enumerate(events, first) for m in run.read(at, START_MS, [event])]


def lane_with(messages: Sequence[Message]) -> Lane:
    lane = new_lane(0, PLAN, {TOPIC: 0}, [TOPIC])
    take(lane, messages)
    return lane


def take(lane: Lane, messages: Sequence[Message]) -> None:
    process_batch(lane, {TOPIC: list(logged(messages))}, {}, decoder("native", Limits()))


def logged(messages: Sequence[Message]) -> Iterator[LogRecord]:
    for offset, message in enumerate(messages):
        yield record(message.value, offset=offset)


def test_an_event_that_the_topic_does_not_take_is_refused_and_the_chain_stays_whole() -> None:
    noted = list[Decoded]()
    run = run_from(100)
    first = sent(run, shown(0))
    assert not list(run.read(101, START_MS, [], noted.append))
    large = list(run.read(101, START_MS, [shown(1, LIST)], noted.append))
    last = sent(run, shown(2), first=102)
    (refused,) = noted
    assert isinstance(refused, Rejected) and refused.reason == "too_large"
    lane = lane_with([*first, *large, *last])
    assert lane.counts["events"] == {"impression": 2}
    assert lane.counts["rejected"] == {"too_large": 1}
    assert lane.chain is not None and not lane.chain.outcomes["early"]


def test_the_place_of_an_event_does_not_follow_from_what_the_topic_takes() -> None:
    def places(most_bytes: int) -> list[tuple[int, int]]:
        targets = Targets(1, PARTITIONERS[JAVA], {"shown": 1}, PANE_MS, most_bytes)
        run = SourceRun("shown", 0, 100, SourceState(), targets)
        read = [read_sent(m.value) for m in run.read(100, START_MS, [shown(0, LIST), shown(1)])]
        return [one.place for one in read if not isinstance(one, Mark)]

    assert places(500) == [(100, 1)] and places(5_000) == [(100, 0), (100, 1)]


def test_what_is_only_passed_on_is_left_out_before_an_event_is_too_large() -> None:
    event = Impression(
        "q0",
        START_MS,
        ("a", "b"),
        attributes={"country": "US", "url": "x" * 200},
        query="y" * 200,
    )
    needed_of = Limits(attributes=("country",)).needed_of

    def sent_of(one: Impression, most_bytes: int) -> list[Decoded]:
        hash_of = PARTITIONERS[JAVA]
        targets = Targets(1, hash_of, {"shown": 1}, PANE_MS, most_bytes, needed_of)
        message, *marks = SourceRun("shown", 0, 0, SourceState(), targets).read(0, None, [one])
        found = decoder("native", Limits(queries=True))(message.value, None)
        return [] if isinstance(found[0], Rejected) else list(found)

    assert sent_of(event, 5_000) == [event]
    assert sent_of(event, 500) == [needed_of(event)]
    assert sent_of(replace(event, items=LIST), 500) == [], "what is needed is too large itself"


COUNTRY = '[segments]\ngroupings = [["country"]'
DEVICE = COUNTRY + ', ["device"]]'
WORDS = COUNTRY + ', ["words"]]\n[[derive]]\nattribute = "words"\nwords = [2]'


@pytest.mark.parametrize("new", [DEVICE, WORDS], ids=["grouping", "derive"])
def test_a_layout_that_comes_later_counts_what_was_sent_before_it(new: str) -> None:
    lanes = 'windows = ["5m"]\n[kafka]\ntopics = ["shown"]\nlanes = "rekey"\n'
    before, after = (load(lanes + text, {}, "test") for text in (COUNTRY + "]", new))
    assert not restarting_keys(before, after), "nothing is read again"
    log = [
        record(
            {
                "type": "impression",
                "impression_id": f"q{number}",
                "timestamp": START_MS + number,
                "items": ["a"],
                "attributes": {"country": "US", "device": ("ios", "web")[number % 2]},
                "query": "red shoes" if number % 3 else "shoes",
            },
            topic="shown",
            offset=number,
        )
        for number in range(6)
    ]
    run, decode = run_from(0), stage_decoder_of(before)
    messages = [one for of in log for one in run.read(of.offset, None, decode.of_record(of))]
    rekeyed = new_lane(0, after.lane_plan, {TOPIC: 0}, [TOPIC])
    process_batch(rekeyed, {TOPIC: list(logged(messages))}, {}, lane_decoder_of(after))
    one = new_lane(0, after.plan, {"shown/0": 0}, ["shown/0"])
    process_batch(one, {"shown/0": log}, {}, decoder_of(after))
    assert rows_of(rekeyed) == rows_of(one) != {}


def test_records_that_were_deleted_unread_count_once_however_often_a_run_begins() -> None:
    before = sent(run_from(40), *map(shown, range(10)), first=40)
    lost = run_from(70, lost_from=50)
    assert lost.to_commit == lost.point and lost.point[0] == 50
    told = list(lost.begin())
    assert lost.point[0] == 70
    at_end = lane_with([*before, *told, *lost.at_end(START_MS, is_idle=False)])
    assert at_end.chain is not None and at_end.chain.complete_ms(["shown/0"]) == START_MS
    again = run_from(80, lost_from=50)  # the first was not committed, and more is gone
    assert again.point[0] == 50
    told += again.begin()
    lane = lane_with([*before, *told, *told, *sent(again, shown(80), first=80)])
    assert lane.counts["gap_records"] == {"shown/0": 30}
    assert lane.counts["events"] == {"impression": 11}


def test_what_was_read_and_not_committed_is_no_loss() -> None:
    before = sent(run_from(40), *map(shown, range(30)), first=40)
    late = run_from(60, lost_from=50)
    lane = lane_with([*before, *late.begin(), *sent(late, *map(shown, range(20, 31)), first=60)])
    assert lane.counts["gap_records"] == Counter()
    assert lane.counts["events"] == {"impression": 31}


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_source_at_its_end_holds_back_no_clock_whatever_its_records_are(is_idle: bool) -> None:
    """They are refused, as of a broken release. No watermark follows the clock before the source is
    idle; all that it has was taken."""
    other = SourceRun("shown", 0, 0, SourceState(), dataclasses.replace(TARGETS, partitions=1))
    broken = SourceRun("clicks", 0, 0, SourceState(), dataclasses.replace(TARGETS, partitions=1))
    messages = sent(other, shown(0), shown(60_000), first=0)
    messages += broken.read(0, START_MS, [Rejected("not_json")])
    clock_ms = START_MS + 600_000
    for run, idle in ((broken, is_idle), (other, False)):
        messages += run.at_end(clock_ms, is_idle=idle)
    lane = lane_with([*messages, *sent(other, shown(60_001), first=2)])
    assert lane.chain is not None and lane.counts["rejected"] == {"not_json": 1}
    assert lane.chain.complete_ms(["shown/0", "clicks/0"]) == clock_ms
    assert lane.lifts.keys() == ({"clicks/0"} if is_idle else set())


def test_a_lane_stops_at_a_source_that_was_created_again() -> None:
    lane = lane_with(sent(run_from(100, life="a"), shown(0)))
    take(lane, sent(run_from(101, life="a"), shown(1), first=101))
    with pytest.raises(SourceReplaced, match=r"its id was a and is b\. Set \[rekey\] topic"):
        take(lane, sent(run_from(0, life="b"), shown(2), first=0))
