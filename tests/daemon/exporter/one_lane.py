"""An exporter of one lane, beside a namespace and a store that answer as a test says."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from relevanced.daemon.exporter import Condition, Exporter, Published
from relevanced.daemon.lane import PAGE_ROWS
from relevanced.daemon.storage import (
    LAYOUTS_KEY,
    Head,
    InForce,
    LaneDelta,
    Term,
    first_layouts,
    pack,
    pack_page,
)
from relevanced.daemon.telemetry import Telemetry
from tests.builders import PLAN, START_MS

PATIENCE_S = 10.0


class Namespace:
    """A namespace with one lane and a lease, which this process gets if `leads`."""

    def __init__(self) -> None:
        self.leads = True
        self.selection: bytes | None = None
        self.changes: bytes | None = None
        self.released = False
        self.has_caught_up = True
        self.successor: str | None = None
        self.predecessor: str | None = None

    async def lanes(self) -> int:
        return 1

    async def begun(self) -> frozenset[int]:
        return frozenset()

    async def lease(self, token: str, silence_ms: int) -> bool:
        return self.leads

    async def release(self, token: str) -> None:
        self.released = True

    async def stored_selection(self) -> bytes | None:
        return self.selection

    async def store_selection(self, selection: bytes) -> None:
        self.selection = selection

    async def stored_changes(self) -> bytes | None:
        return self.changes

    async def store_changes(self, changes: bytes) -> None:
        self.changes = changes

    async def term(self) -> Term:
        serves = self.has_caught_up and self.successor is None
        return Term(serves, self.successor, None if serves else self.predecessor)

    async def take_over(self) -> list[str]:
        self.has_caught_up = True
        return []


class Lane:
    """A store that gives these answers in turn, and then the last one for ever."""

    def __init__(self, *answers: LaneDelta | Exception | None) -> None:
        self.answers = list(answers)

    async def read(self, lane: int, token: str, sequence: int | None, names: int) -> Any:
        answer = self.answers[0]
        if len(self.answers) > 1:
            self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Outlet:
    """Takes what is published, and stops the exporter when that is as wanted."""

    def __init__(self, done: Callable[[Published], bool]) -> None:
        self.done = done
        self.stop = asyncio.Event()
        self.published = Published()

    def swap(self, published: Published) -> None:
        self.published = published
        if self.done(published):
            self.stop.set()

    def conditions(self) -> Sequence[Condition]:
        return []


def delta(impressions: int, *, page: bytes | None = None) -> LaneDelta:
    rows = np.zeros((PAGE_ROWS, PLAN.row_width), np.int64)
    rows[0, 0] = impressions
    head = Head(
        token="t",
        sequence=impressions,
        offsets={"events": impressions},
        watermarks={"events": START_MS},
        counts={"events": {"impression": impressions}},
    )
    key = f"rows:300:{START_MS}:0"
    return LaneDelta(head, True, [], {key: pack_page(rows) if page is None else page})


LAYOUTS = first_layouts(InForce(PLAN))
COUNTRY = LAYOUTS.grouping_names.index("country")


def countries(de: int, us: int, busy: str, *, token: str = "t", sequence: int = 1) -> LaneDelta:
    """A lane with so many settled impressions of each, where one is busier now."""
    shape = PAGE_ROWS, PLAN.row_width
    totals, now = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    totals[:3, 0] = de + us, de, us
    now[:3, 0] = 105, *((100, 5) if busy == "DE" else (5, 100))
    pages = {
        LAYOUTS_KEY: pack(LAYOUTS),
        "totals:0": pack_page(totals),
        **{f"rows:{window}:{START_MS}:0": pack_page(now) for window in (300, 3600)},
    }
    head = replace(delta(de + us).head, token=token, sequence=sequence)
    return LaneDelta(head, True, [(COUNTRY, "DE"), (COUNTRY, "US")], pages)


async def served_when(
    done: Callable[[Published], bool],
    lane: Lane,
    namespace: Namespace,
    monkeypatch: Any,
    clock_s: float = START_MS / 1000 + 10,
    telemetry: Telemetry | None = None,
) -> Published:
    """Run an exporter until what it serves is as wanted."""
    monkeypatch.setattr("relevanced.daemon.exporter.exporter.REFRESH_EVERY_S", 0.0)
    monkeypatch.setattr("relevanced.daemon.exporter.exporter.STANDBY_EVERY_S", 0.0)
    outlet = Outlet(done)
    store: Any = lane
    telemetry = telemetry or Telemetry("test")
    exporter = Exporter(store, namespace, PLAN, telemetry, outlet, outlet.stop, lambda: clock_s)
    async with asyncio.timeout(PATIENCE_S):
        await exporter.run()
    return outlet.published


def impressions(published: Published) -> int:
    return 0 if published.report is None else published.report.events.impressions


def failing(published: Published) -> Mapping[str, str]:
    """The conditions that say what is wrong, ready or not."""
    said = (c for c in published.conditions if not c.ok or (c.name == "snapshot" and c.detail))
    return {condition.name: condition.detail for condition in said}


Step = Callable[[], float]
"""Something that happens, and how many seconds pass meanwhile."""


async def rounds(namespace: Namespace, lane: Lane, steps: Sequence[Step]) -> list[Published]:
    """What an exporter publishes round by round; before each there is a step."""
    found, left, now_s = list[Published](), iter(steps), 100.0

    def done(published: Published) -> bool:
        nonlocal now_s
        found.append(published)
        step = next(left, None)
        now_s += 0.0 if step is None else step()
        return step is None

    outlet, store = Outlet(done), cast(Any, lane)
    now_s += next(left)()
    exporter = Exporter(
        *(store, namespace, PLAN, Telemetry("test"), outlet, outlet.stop),
        lambda: START_MS / 1000 + 10,
        monotonic=lambda: now_s,
    )
    async with asyncio.timeout(PATIENCE_S):
        await exporter.run()
    return found
