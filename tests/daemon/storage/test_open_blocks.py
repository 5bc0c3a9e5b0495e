"""The log of open state: few blocks for any pattern of commits, and nothing is lost."""

import math
import random
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.lane import Lane, LaneSegments
from relevanced.daemon.storage import (
    MERGED_ENTRIES,
    Block,
    BlockEntry,
    combined,
    encode,
    merged,
    replay,
)
from tests.builders import (
    BASE_MS,
    SETTLE_MS,
    START_MS,
    clicked,
    feed,
    gains,
    items,
    judged,
    lane_of,
    passing,
    settled,
    shown,
)

CLOSES_MS = START_MS + BASE_MS + SETTLE_MS
EXPIRES_MS = CLOSES_MS + 5_000


def entry(block: Block, expires_ms: int = 0) -> BlockEntry:
    slots, serials = (block.first_slot, block.end_slot), (block.first_serial, block.end_serial)
    return BlockEntry(1, *slots, *serials, expires_ms, block.size)


def copied(lane: Lane, *blocks: Block) -> Lane:
    """What a lane becomes that is read back from these blocks."""
    back = lane_of(plan=lane.plan)
    back.segments = LaneSegments.of(lane.segments.names)
    for block in blocks:
        encoded = encode(lane, block)
        assert encoded is not None
        data, expires_ms = encoded
        replay(back, entry(block, expires_ms), data)
    return back


def everything(lane: Lane) -> Block:
    return Block(0, lane.open.next_slot, 0, lane.waiting.next_serial)


# Merging

Sizes = Callable[[random.Random], Iterator[int]]
PATTERNS: Final[dict[str, Sizes]] = {
    "one by one": lambda rng: repeat(1),
    "medium": lambda rng: repeat(700),
    "just too large": lambda rng: repeat(MERGED_ENTRIES // 2 + 1),
    "huge": lambda rng: repeat(3 * MERGED_ENTRIES),
    "halving": lambda rng: (2**n for _ in repeat(0) for n in range(15, -1, -1)),
    "doubling": lambda rng: (2**n for _ in repeat(0) for n in range(16)),
    "a giant, then a dwarf": lambda rng: (s for _ in repeat(0) for s in (MERGED_ENTRIES, 1)),
    "a bit more than a third": lambda rng: (s for _ in repeat(0) for s in (4001, 2000, 999, 499)),
    "any": lambda rng: (rng.randrange(1, 3000) for _ in repeat(0)),
    "any magnitude": lambda rng: (int(2 ** rng.uniform(0, 16)) for _ in repeat(0)),
}


def grown(sizes: Iterator[int], commits: int) -> Iterator[tuple[list[Block], int]]:
    """The log after each of these commits, and how much the commit wrote."""
    log: list[Block] = []
    slot = 0
    for size in (next(sizes) for _ in range(commits)):
        block, replaced = merged(log, Block(slot, slot + size, 0, 0))
        log = [*log[: len(log) - len(replaced)], block]
        slot += size
        yield log, block.size


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_any_pattern_of_commits_leaves_few_blocks(pattern: Sizes) -> None:
    """Of two neighbours the later is less than half as large, or they hold more than
    MERGED_ENTRIES together. So there are at most 2·entries/MERGED_ENTRIES + 1 runs that halve, and
    a run that halves is no longer than log2(MERGED_ENTRIES) + 2."""
    for log, _ in grown(pattern(random.Random(1)), 400):
        runs = 2 * log[-1].end_slot / MERGED_ENTRIES + 1
        assert len(log) <= runs * (math.log2(MERGED_ENTRIES) + 2)
        for earlier, later in zip(log, log[1:]):
            together = earlier.size + later.size
            assert earlier.size > 2 * later.size or together > MERGED_ENTRIES


def test_a_thousand_small_commits_leave_few_blocks() -> None:
    rng = random.Random(5)
    log, _ = list(grown((rng.randrange(1, 1000) for _ in repeat(0)), 1000))[-1]
    assert len(log) <= 2 * log[-1].end_slot / MERGED_ENTRIES + 14


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_merging_leaves_no_gap_and_no_overlap(pattern: Sizes) -> None:
    for log, _ in grown(pattern(random.Random(2)), 500):
        assert log[0].first_slot == 0
        assert all(a.end_slot == b.first_slot for a, b in zip(log, log[1:]))


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_each_thing_is_rewritten_a_few_times(pattern: Sizes) -> None:
    """At most once per growth by a half: log1.5(MERGED_ENTRIES) is 21."""
    steps = list(grown(pattern(random.Random(3)), 2000))
    written = sum(size for _, size in steps)
    assert written <= 25 * steps[-1][0][-1].end_slot


def test_a_block_is_never_merged_beyond_the_limit() -> None:
    rng = random.Random(4)
    for log, _ in grown((rng.randrange(1, MERGED_ENTRIES) for _ in repeat(0)), 500):
        assert max(block.size for block in log) <= MERGED_ENTRIES


@pytest.mark.parametrize(("last", "kept"), [(2, 0), (3, 1)])
def test_a_block_is_merged_while_it_is_at_most_twice_as_large(last: int, kept: int) -> None:
    block, replaced = merged([Block(0, last, 0, 0)], Block(last, last + 1, 0, 0))
    assert 1 - len(replaced) == kept
    assert block.first_slot == (last if kept else 0)


@pytest.mark.parametrize(("more", "kept"), [(0, 0), (1, 1)])
def test_blocks_are_merged_up_to_the_limit(more: int, kept: int) -> None:
    size = MERGED_ENTRIES // 2
    _, replaced = merged([Block(0, size, 0, 0)], Block(size, MERGED_ENTRIES + more, 0, 0))
    assert 1 - len(replaced) == kept


@pytest.mark.parametrize(("more", "slots"), [(0, MERGED_ENTRIES - 10), (1, 0)])
def test_a_block_too_large_to_be_merged_drops_its_slots(more: int, slots: int) -> None:
    block = Block(MERGED_ENTRIES, MERGED_ENTRIES + 9 + more, 0, 0, np.arange(MERGED_ENTRIES - 10))
    size = block.size
    block.written(BlockEntry(1, block.first_slot, block.end_slot, 0, 0, 0, size))
    assert (block.size, len(block.slots)) == (size, slots)


def test_a_combined_block_contains_changes_of_what_it_brought() -> None:
    earlier = Block(10, 20, 5, 8, slots=np.array([3]), relisted={3}, bound={1}, joined={2: 9})
    later = Block(
        20,
        30,
        8,
        9,
        slots=np.array([3, 4, 10, 19]),
        relisted={4, 12},
        bound={5, 4},
        joined={7: 9, 0: 9},
    )
    both = combined(earlier, later)
    assert (both.first_slot, both.end_slot, both.first_serial, both.end_serial) == (10, 30, 5, 9)
    assert (both.slots.tolist(), both.relisted, both.bound) == ([3, 4], {3, 4}, {1, 4})
    assert (both.joined, both.entry) == ({2: 9, 0: 9}, None)
    assert both.size == 20 + 4 + 2 + 2 + 2


# Bytes


def busy() -> Lane:
    """A lane with graded, blank, repeated and waiting things."""
    lane = lane_of()
    settled(lane, shown(0, "a b a", attributes={"country": "US"}), shown(BASE_MS, "x", of="é\\"))
    settled(
        lane, clicked(1, "a"), judged(2, "b", 1.5), clicked(3, "nowhere"), clicked(4, "k", of="p")
    )
    settled(lane, shown(5, "b c", first_rank=4), judged(6, "a", 0))
    return lane


def test_a_block_comes_back_as_it_was() -> None:
    lane = busy()
    back = copied(lane, everything(lane))
    assert back.waiting.by_serial == lane.waiting.by_serial
    assert (items(back), gains(back)) == (items(lane), gains(lane))
    assert back.open.grades == lane.open.grades
    assert [*back.open.ids] == [*lane.open.ids]
    assert list(back.open.times_ms) == list(lane.open.times_ms)


def test_segments_come_back_by_what_they_mean() -> None:
    lane = busy()
    back = copied(lane, everything(lane))
    of = [back.segments.combinations[number] for number in back.open.combinations]
    assert of == [lane.segments.combinations[number] for number in lane.open.combinations]


def test_a_later_block_changes_what_an_earlier_one_brought() -> None:
    lane = lane_of()
    feed(lane, shown(0, "a"), clicked(1, "x"), clicked(1, "later", of="p"))
    first = everything(lane)
    back = copied(lane, first)
    feed(lane, clicked(2, "a", kind="purchase"), judged(3, "a", 2), shown(4, "x", first_rank=2))
    feed(lane, shown(5, "y", of="p"))
    second = Block(1, 2, 2, 2, slots=np.array([0]), relisted={0}, bound={1}, joined={0: EXPIRES_MS})
    encoded = encode(lane, second)
    assert encoded is not None
    replay(back, entry(second), encoded[0])
    assert (items(back), gains(back)) == (["a", "x"], [2.0, 1.0])
    assert back.waiting.by_serial == lane.waiting.by_serial
    assert (list(back.waiting.by_serial), back.waiting.by_serial[1].bound_ms) == ([1], START_MS + 5)


def test_slots_of_closed_impressions_stay_unused() -> None:
    lane = lane_of()
    settled(lane, *(shown(0, of=f"q{n}") for n in range(3)), shown(3 * BASE_MS, of="last"))
    settled(lane, passing(CLOSES_MS - START_MS))
    back = copied(lane, everything(lane))
    assert back.open.slots_of("last") == lane.open.slots_of("last") == (3,)
    assert back.open.base == 3


@pytest.mark.parametrize(
    ("block", "expires_ms"),
    [
        (Block(0, 1, 0, 0), CLOSES_MS),
        (Block(0, 2, 0, 0), CLOSES_MS + BASE_MS),
        (Block(0, 1, 0, 1), EXPIRES_MS + 3),
        (Block(2, 2, 0, 0, slots=np.array([0])), CLOSES_MS),
        (Block(2, 2, 1, 1, bound={0}), EXPIRES_MS + 3),
        (Block(2, 2, 1, 1, joined={0: CLOSES_MS + 1}), CLOSES_MS + 1),
    ],
)
def test_a_block_expires_with_its_last_entry(block: Block, expires_ms: int) -> None:
    lane = lane_of()
    feed(lane, shown(0), shown(BASE_MS, of="p"), clicked(3, "nowhere"))
    encoded = encode(lane, block)
    assert encoded is not None and encoded[1] == expires_ms


def test_no_block_is_written_where_nothing_is_open() -> None:
    lane = lane_of()
    settled(lane, shown(0), clicked(1, "x"), clicked(1, "a"))
    settled(lane, passing(2 * (EXPIRES_MS - START_MS)))
    assert (
        encode(lane, Block(0, 1, 0, 1, slots=np.array([0]), bound={0}, joined={0: EXPIRES_MS}))
        is None
    )


@pytest.mark.parametrize(("watermark_ms", "lasts"), [(-1, True), (0, False)])
def test_joined_feedback_is_stored_as_long_as_it_would_have_waited(
    watermark_ms: int, lasts: bool
) -> None:
    lane = lane_of()
    lane.watermarks["events"] = EXPIRES_MS + watermark_ms
    assert (encode(lane, Block(0, 0, 1, 1, joined={0: EXPIRES_MS})) is not None) == lasts


def test_the_same_block_is_the_same_bytes() -> None:
    lane = busy()
    assert encode(lane, everything(lane)) == encode(lane, everything(lane))
