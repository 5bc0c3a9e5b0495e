"""Judged rows through a real server: what is committed of them is what an exporter serves."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from relevanced.daemon.exporter import Publisher
from relevanced.daemon.http import judged
from relevanced.daemon.judgements import DatedFiles, Timeline
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.storage import (
    JUDGED,
    JUDGEMENTS_FIELD,
    LaneStore,
    RowsHead,
    pack,
    pack_page,
    timeline_head,
)
from relevanced.daemon.views import Mirror
from tests.judged_lanes import NOON, PLAN, JudgedHour, entry, row
from tests.lane_views import pages_of
from tests.services.fixtures import AnyRedis
from tests.services.redis_lanes import LANE, START, commit_of, store_at

assert PLAN.judged is not None
COLUMNS: Final = PLAN.judged.column_ids
OLD: Final = entry(NOON - 40 * 24 * HOUR_MS)
NEW: Final = entry(NOON - HOUR_MS, "b")
WATERMARK_MS: Final = NOON + PLAN.timing.lateness_ms
HOUR_WINDOW: Final = 1


@pytest.fixture
def redis(any_redis: AnyRedis) -> AnyRedis:
    """Every test here runs on a cluster as well."""
    return any_redis


def page(score: float, impressions: int = 600) -> bytes:
    return pack_page(pages_of(np.array([row(impressions, JudgedHour(score=score))], np.int64))[0])


def head_fields(columns: tuple[str, ...], since_ms: int = 0) -> dict[str, bytes]:
    files = timeline_head(
        DatedFiles[object](Timeline((NEW,), (entry(NOON - 1, "c"),)), past=(OLD,))
    )
    return {
        "watermarks": msgspec.json.encode(dict.fromkeys(START, WATERMARK_MS)),
        JUDGED.field: pack(RowsHead(WATERMARK_MS, since_ms, columns)),
        JUDGEMENTS_FIELD: pack(files),
    }


def pages(score: float) -> dict[str, bytes]:
    """Of the last two hours, and of the panes of the window of an hour in them."""
    pane_ms = PLAN.timing.windows[HOUR_WINDOW].pane_ms
    starts = range(NOON - 2 * HOUR_MS, NOON, pane_ms)
    panes = {JUDGED.pane(PLAN.timing, (HOUR_WINDOW, start), 0): page(score, 20) for start in starts}
    hours = range(NOON - 2 * HOUR_MS, NOON, HOUR_MS)
    return panes | {JUDGED.hour(start, 0): page(score) for start in hours}


async def commit(
    store: LaneStore, sequence: int, blobs: Mapping[str, bytes], fields: Mapping[str, bytes]
) -> None:
    made = commit_of("t", sequence, blobs=blobs, offset=sequence + 1)
    assert await store.commit(replace(made, fields={**made.fields, **fields})) == "applied"


async def read(store: LaneStore, mirror: Mirror) -> Any:
    delta = await store.read(LANE, mirror.token, mirror.sequence, len(mirror.names))
    assert delta is not None
    mirror.apply(delta)
    published = Publisher(PLAN).publish([mirror.view()], WATERMARK_MS)
    assert published.reading is not None
    return judged(published.reading, {"judged_metric": ["P@5"], "window": ["1h"]})


async def test_what_is_committed_is_served_and_followed(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "t", START)
        await commit(store, 0, pages(0.75), head_fields(COLUMNS))
        mirror = Mirror(LANE, PLAN)
        found = await read(store, mirror)
        (score,) = found.scores
        assert score.mean == pytest.approx(0.75) and score.impressions == 600
        assert (found.judgements, [file.name for file in found.refused]) == ("b.csv", ["c.csv"])
        assert mirror.view().rows
        last = NOON - PLAN.timing.windows[HOUR_WINDOW].pane_ms
        changed = {JUDGED.pane(PLAN.timing, (HOUR_WINDOW, last), 0): page(0.0, 20)}
        await commit(store, 1, changed, head_fields(COLUMNS))
        (score,) = (await read(store, mirror)).scores
        assert score.mean == pytest.approx(0.75 * 29 / 30)


async def test_other_columns_than_expected_are_not_read_as_these(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "t", START)
        await commit(store, 0, pages(0.75), head_fields(("RR@5", *COLUMNS)))
        mirror = Mirror(LANE, PLAN)
        assert (await read(store, mirror)).scores == ()
        # Another writer goes over to those that are expected; its first hour is still to come.
        await commit(store, 1, {}, head_fields(COLUMNS, NOON))
        assert (await read(store, mirror)).scores == ()


async def test_columns_that_begin_anew_have_no_older_pages(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "t", START)
        await commit(store, 0, pages(0.75), head_fields(COLUMNS))
        mirror = Mirror(LANE, PLAN)
        assert (await read(store, mirror)).scores[0].impressions == 600
        last = NOON - PLAN.timing.windows[HOUR_WINDOW].pane_ms
        key = JUDGED.pane(PLAN.timing, (HOUR_WINDOW, last), 0)
        await commit(store, 1, {key: page(0.5, 20)}, head_fields(COLUMNS, NOON - HOUR_MS))
        assert (await read(store, mirror)).scores[0].impressions == 20


async def test_judgements_that_are_switched_off_are_served_no_more(redis: AnyRedis) -> None:
    async with store_at(redis.url) as store:
        await store.claim(LANE, "t", START)
        await commit(store, 0, pages(0.75), head_fields(COLUMNS))
        mirror = Mirror(LANE, PLAN)
        assert (await read(store, mirror)).scores
        off = {JUDGED.field: b"", JUDGEMENTS_FIELD: b""}
        await commit(store, 1, {}, head_fields(COLUMNS) | off)
        found = await read(store, mirror)
        assert found.scores == () and found.judgements is None
