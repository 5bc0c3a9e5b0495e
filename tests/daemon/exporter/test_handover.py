"""What the exporter that leads leaves to the next one, and goes on from itself, whatever Redis lost
and whoever led meanwhile."""

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from relevanced.daemon.changes import Fall, FallOnset
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.exporter import (
    LOOK_EVERY_S,
    Detection,
    Published,
    Told,
    packed,
    restored,
)
from relevanced.daemon.lane import columns_of
from relevanced.daemon.storage import LaneDelta
from relevanced.daemon.views import PreviousSelection
from tests.builders import PLAN, START_MS
from tests.daemon.exporter.one_lane import (
    Lane,
    Namespace,
    Step,
    countries,
    delta,
    rounds,
)

AT = float(START_MS)
SERIES = ("all", "all", "P@1")
FALL = Fall(SERIES, START_MS, FallOnset(AT, AT, AT, by_panes=True), ("hour",), START_MS, AT)
OTHER_FALL = replace(FALL, series=("country", "DE", "P@1"))
LINE = re.compile(
    r'relevanced_settled_impressions_total\{grouping="country",segment="(\w+)".*\} (\d+)'
)


class Redis(Namespace):
    """A namespace of which the server may be away, or refuse so many of these calls."""

    away = False
    refuses_reads = 0
    refuses_writes = 0
    refuses_changes = False

    async def lease(self, token: str, silence_ms: int) -> bool:
        if self.away:
            raise Unavailable("Redis: away")
        return self.leads

    async def stored_changes(self) -> bytes | None:
        self.refuses_reads -= 1
        if self.refuses_reads >= 0:
            raise Unavailable("Redis: LOADING")
        return self.changes

    async def store_changes(self, changes: bytes) -> None:
        if self.refuses_changes:
            raise Unavailable("Redis: OOM")
        self.changes = changes

    async def store_selection(self, selection: bytes) -> None:
        self.refuses_writes -= 1
        if self.refuses_writes >= 0:
            raise Unavailable("Redis: OOM")
        self.selection = selection

    @property
    def stored(self) -> tuple[bytes | None, bytes | None]:
        return self.selection, self.changes

    @stored.setter
    def stored(self, stored: tuple[bytes | None, bytes | None]) -> None:
        self.selection, self.changes = stored

    @property
    def falls(self) -> tuple[Fall, ...]:
        return restored(self.changes, Told()).falls


@pytest.fixture(autouse=True)
def decided(monkeypatch: pytest.MonkeyPatch) -> list[Fall]:
    """Rounds without a pause, and the falls that the next round finds."""
    found = list[Fall]()

    def look(judge: Any, *_: Any) -> Detection:
        judge.falls = (*judge.falls, *found)
        found.clear()
        return Detection()

    monkeypatch.setattr("relevanced.daemon.exporter.exporter.REFRESH_EVERY_S", 0.0)
    monkeypatch.setattr("relevanced.daemon.exporter.exporter.STANDBY_EVERY_S", 0.0)
    monkeypatch.setattr("relevanced.daemon.exporter.scorer.ChangeDetector.look", look)
    return found


BEFORE = (
    countries(1000, 500, "DE"),
    countries(1000, 900, "US", sequence=2),
    countries(1000, 950, "US", sequence=3),
)
"""The US join with 900 in `other`, and have counted 50 since."""
GONE_ON = countries(1000, 960, "US", sequence=4)
BEGUN_ANEW = countries(10, 20, "US", token="u")
SHORT_S, LONG_S = 3.0, 12.0
"""A lease is over after the second."""
VERY_LONG_S = 100.0
"""So long nobody serves on without Redis."""


def counted(published: Published) -> dict[str, int]:
    """Country → what its counter shows."""
    text = b"".join(published.text.plain).decode()
    return {segment: int(value) for segment, value in LINE.findall(text)}


def selection(us_in_other: int) -> PreviousSelection:
    """One of both countries."""
    row = (us_in_other, *[0] * (PLAN.row_width - 1))
    in_other = (("country", "DE", (0,) * PLAN.row_width), ("country", "US", row))
    return PreviousSelection(True, in_other, columns_of(PLAN))


async def played(
    redis: Redis, decided: list[Fall], away_s: float, meanwhile: Step, now: LaneDelta
) -> Published:
    """An exporter leads for three rounds, in which the US join and something falls. `meanwhile` is
    what happens then, for a round of `away_s`; the rounds after that are published."""

    def falls() -> float:
        decided.append(FALL)
        return 1.0

    def gone() -> float:
        assert redis.falls == (FALL,)
        redis.away = True
        meanwhile()
        return away_s

    def back() -> float:
        redis.away, redis.leads = False, True
        return 0.5

    steps = [pause, falls, pause, gone, back, pause, pause]
    found = await rounds(redis, Lane(*BEFORE, now), steps)
    assert counted(found[2]) == {"DE": 1000, "US": 50, "other": 900}
    return found[-1]


def pause() -> float:
    return 0.5


@pytest.mark.parametrize("away_s", [SHORT_S, LONG_S, VERY_LONG_S])
async def test_a_holder_goes_on_where_redis_comes_back_empty(
    away_s: float, decided: list[Fall]
) -> None:
    redis = Redis()

    def emptied() -> float:
        redis.stored = None, None
        return 0.0

    last = await played(redis, decided, away_s, emptied, BEGUN_ANEW)
    assert counted(last) == {"DE": 1000, "US": 50, "other": 900}
    assert restored(redis.selection, PreviousSelection()) == selection(900)
    assert redis.falls == (FALL,)


@pytest.mark.parametrize("away_s", [SHORT_S, LONG_S, VERY_LONG_S])
async def test_a_holder_goes_on_where_redis_comes_back_with_what_it_stored_earlier(
    away_s: float, decided: list[Fall]
) -> None:
    redis, stored = Redis(), list[tuple[bytes | None, bytes | None]]()

    async def store_selection(selection: bytes) -> None:
        redis.selection = selection
        stored.append((selection, packed(Told(), msgspec.json.decode(selection)["by"])))

    redis.store_selection = store_selection  # type: ignore[method-assign]

    def rolled_back() -> float:
        redis.stored = stored[0]
        return 0.0

    last = await played(redis, decided, away_s, rolled_back, GONE_ON)
    assert restored(stored[0][0], PreviousSelection()) != selection(900)
    assert counted(last) == {"DE": 1000, "US": 60, "other": 900}
    assert restored(redis.selection, PreviousSelection()) == selection(900)
    assert redis.falls == (FALL,)


@pytest.mark.parametrize("refused", [0, 1, 2])
@pytest.mark.parametrize("away_s", [SHORT_S, LONG_S, VERY_LONG_S])
async def test_only_a_holder_whose_lease_was_over_takes_what_another_stored(
    away_s: float, refused: int, decided: list[Fall]
) -> None:
    redis = Redis()

    def stored() -> float:
        redis.stored = packed(selection(850), "b"), packed(Told((OTHER_FALL,)), "b")
        redis.refuses_reads = refused
        return 0.0

    last = await played(redis, decided, away_s, stored, GONE_ON)
    is_own = away_s == SHORT_S
    us = 900 if is_own else 850
    assert counted(last) == {"DE": 1000, "US": 960 - us, "other": us}
    assert restored(redis.selection, PreviousSelection()) == selection(us)
    assert redis.falls == (FALL if is_own else OTHER_FALL,)


async def test_a_holder_goes_on_from_what_it_has_not_stored_yet_where_nobody_stored_since(
    decided: list[Fall],
) -> None:
    """What is stored is by the exporter before it."""
    redis = Redis()
    redis.stored = packed(selection(850), "b"), packed(Told((OTHER_FALL,)), "b")

    def refused() -> float:
        decided.append(FALL)
        redis.refuses_changes = True
        return 0.5

    def gone() -> float:
        redis.away = True
        return LONG_S

    def back() -> float:
        assert redis.falls == (OTHER_FALL,)
        redis.away = redis.refuses_changes = False
        return 0.5

    await rounds(redis, Lane(*BEFORE, GONE_ON), [pause, refused, gone, back, pause])
    assert redis.falls == (OTHER_FALL, FALL)


@pytest.mark.parametrize("emptied", [False, True])
async def test_one_that_saw_another_lead_takes_what_is_stored_whoever_stored_it(
    emptied: bool, decided: list[Fall]
) -> None:
    """Where nothing is, its counters go on from where it left them."""
    redis = Redis()

    def led() -> float:
        redis.away, redis.leads = False, False
        by = msgspec.json.decode(redis.selection or b"")["by"]
        redis.stored = packed(selection(850), by), packed(Told((OTHER_FALL,)), by)
        if emptied:
            redis.stored = None, None
        return 0.0

    last = await played(redis, decided, SHORT_S, led, GONE_ON)
    us = 900 if emptied else 850
    assert counted(last) == {"DE": 1000, "US": 960 - us, "other": us}
    assert redis.falls == (FALL if emptied else OTHER_FALL,)


@pytest.mark.parametrize("now", [GONE_ON, delta(3, page=b"rubbish")])
async def test_what_redis_lost_unseen_is_stored_again_within_seconds(now: LaneDelta) -> None:
    """Also where no snapshot can be made."""
    redis, kept = Redis(), list[bytes | None]()

    def emptied() -> float:
        redis.stored = None, None
        return LOOK_EVERY_S / 2

    def later() -> float:
        kept.append(redis.selection)
        return LOOK_EVERY_S / 2

    await rounds(redis, Lane(*BEFORE, now), [pause, pause, pause, emptied, later, later])
    assert kept[0] is None and kept[1] and restored(kept[1], PreviousSelection()) == selection(900)


async def test_what_is_refused_is_stored_later_and_holds_the_other_value_back_at_no_time(
    decided: list[Fall],
) -> None:
    redis = Redis()
    redis.refuses_writes = 2
    decided.append(FALL)

    def soon() -> float:
        assert (redis.refuses_writes, redis.falls) == (1, (FALL,))
        return LOOK_EVERY_S / 4

    def at_last() -> float:
        assert (redis.refuses_writes, redis.selection) == (0, None)
        return LOOK_EVERY_S

    await rounds(redis, Lane(*BEFORE), [pause, soon, soon, soon, soon, at_last])
    assert restored(redis.selection, PreviousSelection()) == selection(900)


async def test_what_is_served_is_stored_whatever_fails_after_it(decided: list[Fall]) -> None:
    class NotPermitted(Redis):
        has_caught_up = False

        async def take_over(self) -> list[str]:
            raise Unavailable("Redis: NOPERM")

    redis = NotPermitted()
    decided.append(FALL)
    await rounds(redis, Lane(*BEFORE), [pause] * 3)
    assert restored(redis.selection, PreviousSelection()) == selection(900)
    assert redis.falls == (FALL,)


@pytest.mark.parametrize("stored", [b"", b"{", b"[]", b'{"by":"\xff"}', b'{"falls":0}'])
async def test_what_nobody_can_read_counts_as_nothing(stored: bytes) -> None:
    redis = Redis()
    redis.stored = stored, stored
    await rounds(redis, Lane(*BEFORE), [pause] * 4)
    assert restored(redis.selection, PreviousSelection()) == selection(900)


async def test_an_exporter_of_an_earlier_version_reads_what_is_stored() -> None:
    told = Told((FALL,))
    assert msgspec.json.decode(packed(told, "a"), type=Told) == told
    assert restored(msgspec.json.encode(told), Told()) == told


@pytest.mark.parametrize("leads", [True, False])
async def test_an_exporter_begins_with_the_changes_that_were_told(leads: bool) -> None:
    redis = Redis()
    redis.leads, redis.changes = leads, packed(Told((FALL,)), "b")
    assert await rounds(redis, Lane(delta(3)), [pause] * 2)
    assert redis.falls == (FALL,)


def test_stored_rows_that_lack_columns_are_refused() -> None:
    """As any other bytes that cannot be read."""
    whole = selection(900)
    assert restored(packed(whole), PreviousSelection()) == whole
    cut = packed(whole).replace(b"[900,0,", b"[900,")
    assert cut != packed(whole) and restored(cut, PreviousSelection()) == PreviousSelection()
