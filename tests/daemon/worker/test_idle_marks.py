"""When an idle mark is written, and when one is taken back."""

import json

import pytest

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.storage import head_of
from relevanced.daemon.worker import TAKEN_BACK, idle_mark
from tests.builders import START_MS
from tests.daemon.worker.test_worker import Log, Memory, impression, work_until

NOW_MS = START_MS
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("stored_ms", "is_caught_up", "mark"),
    [
        (None, True, NOW_MS),
        (NOW_MS + DAY_MS, True, NOW_MS),
        (None, False, None),
        (NOW_MS - DAY_MS, False, None),
        (NOW_MS + 5_000, False, None),
        (NOW_MS + 5_001, False, TAKEN_BACK),
        (TAKEN_BACK, False, None),
    ],
)
def test_a_mark_says_that_the_log_was_read_up_to_a_time_that_has_been(
    stored_ms: int | None, is_caught_up: bool, mark: int | None
) -> None:
    assert idle_mark(stored_ms, NOW_MS, is_caught_up) == mark


def test_a_mark_that_was_taken_back_is_read_as_none() -> None:
    fields = {"token": b"a", "sequence": b"0", "offsets": json.dumps({}).encode()}
    assert head_of(fields).idle_ms is None
    assert head_of({**fields, "idle": b"%d" % TAKEN_BACK}).idle_ms is None
    assert head_of({**fields, "idle": b"5"}).idle_ms == 5


class Behind(Log):
    """A log whose end is never seen."""

    async def poll(self, *arguments: object, **more: object) -> object:  # type: ignore[override]
        batch = await super().poll(*arguments, **more)  # type: ignore[arg-type]
        return type(batch)(batch.lanes, batch.next_offsets, frozenset())


async def test_an_owner_that_is_behind_takes_back_the_mark_of_a_clock_that_was_ahead() -> None:
    log, store = Behind([impression(n) for n in range(2)]), Memory()
    store.lane.claim("before", b'{"events": 0}')
    store.lane.fields["idle"] = b"%d" % DAY_MS  # the clock of the worker in these tests is at 0
    await work_until(lambda: store.offset == 2, log, store)
    assert head_of(store.lane.fields).idle_ms is None


class Silent(Memory):
    """A store whose answer to the first touch is lost."""

    touches = 0

    async def touch(self, lane: int, token: str, sequence: int, idle_ms: int | None) -> bool:
        self.touches += 1
        if self.touches == 1:
            raise Unavailable("no answer")
        if idle_ms is not None:
            self.lane.fields["idle"] = b"%d" % idle_ms
        return await super().touch(lane, token, sequence, idle_ms)


async def test_a_mark_is_taken_back_again_while_the_store_has_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relevanced.daemon.worker.worker.TOUCH_EVERY_S", -1.0)
    log, store = Behind([]), Silent()
    store.lane.claim("before", b'{"events": 0}')
    store.lane.fields["idle"] = b"%d" % DAY_MS
    await work_until(lambda: head_of(store.lane.fields).idle_ms is None, log, store)
    assert store.touches > 1
