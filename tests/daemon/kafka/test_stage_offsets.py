"""Where the stage begins with its sources."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from relevanced.daemon.config import LogEnd
from relevanced.daemon.kafka import stage_offsets

OWN, SOURCE = TopicPartition("stage", 0), TopicPartition("events", 0)


class Cluster:
    """A source that grows between two answers, and a group that stores nothing yet."""

    def __init__(self, ends: list[int]) -> None:
        self.ends = ends
        self._coordinator = SimpleNamespace(fetch_committed_offsets=self._committed)

    async def _committed(self, places: object) -> dict[Any, Any]:
        return {}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {0}

    async def bounds(self, _: object, places: Any) -> Any:
        if OWN in places:
            return {OWN: 0}, {OWN: 0}
        return {SOURCE: 0}, {SOURCE: self.ends.pop(0)}


@pytest.mark.parametrize(("end_now", "is_stopped"), [(631, False), (640, False), (619, True)])
async def test_a_source_that_grew_while_it_was_asked_for_is_not_stopped(
    monkeypatch: pytest.MonkeyPatch, end_now: int, is_stopped: bool
) -> None:
    """`latest` is 631, though the log ended at 619 a moment before; or it lost its end."""
    cluster = Cluster([619, end_now])

    async def latest(*_: object) -> dict[str, int]:
        return {"events/0": 631}

    async def nothing(*_: object) -> dict[Any, Any]:
        return {}

    for name, instead in (
        ("log_bounds", cluster.bounds),
        ("starting_offsets", latest),
        ("_ids_of", nothing),
        ("store_note", nothing),
    ):
        monkeypatch.setattr(stage_offsets, name, instead)
    found = await stage_offsets.beginnings(cluster, [SOURCE], ["events"], [OWN], LogEnd.LATEST, 0)
    assert (SOURCE in found.stopped) is is_stopped and not cluster.ends
    if not is_stopped:
        assert found.begins[SOURCE].offset == 631
