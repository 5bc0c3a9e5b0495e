"""Where the stage begins with its sources."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from relevanced.daemon.config import LogEnd
from relevanced.daemon.errors import StartError, Unavailable
from relevanced.daemon.kafka import resuming, stage_offsets
from relevanced.daemon.lane import Pending
from relevanced.daemon.worker import SourceState, state_in
from tests.seeds import seeds

TOPIC = "events"
LATE = TopicPartition("late", 0)
OWN = TopicPartition("stage", 0)
SOURCES = [TopicPartition(TOPIC, number) for number in range(3)]


class Cluster:
    """Sources that get a record each time anything is asked of the cluster, and the group of the
    stage. Answers come after some turns of others."""

    def __init__(self) -> None:
        self.rng = Random(0)
        self.ends = {source: 600 for source in SOURCES}
        self.sent = 0
        """How much the topic of the stage has."""
        self.topics = [TOPIC]
        self.topic_id = "first"
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.stored: list[tuple[TopicPartition, int]] = []
        """Offsets of sources, as they were stored one after another."""
        self._coordinator = SimpleNamespace(
            fetch_committed_offsets=self._fetched, commit_offsets=self._commit
        )
        self._subscription = SimpleNamespace(subscription=SimpleNamespace(assignment=None))

    async def _answer(self) -> None:
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)
        for source in self.ends:
            self.ends[source] += 1

    async def _fetched(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        await self._answer()
        return {place: self.committed[place] for place in places if place in self.committed}

    async def _commit(self, _: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        await self._answer()
        self.committed |= offsets
        self.stored += [(place, at.offset) for place, at in offsets.items() if place != OWN]
        await self._answer()

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {source.partition for source in self.ends if source.topic == topic}

    async def log_bounds(self, _: object, places: Collection[TopicPartition]) -> Any:
        await self._answer()
        ends = {place: self.sent if place == OWN else self.ends[place] for place in places}
        await self._answer()
        return dict.fromkeys(places, 0), ends

    async def starting_offsets(
        self, _: object, logs: Mapping[TopicPartition, str], *__: object
    ) -> Any:
        await self._answer()
        return {log: self.ends[place] for place, log in logs.items()}

    async def ids_of(self, _: object, places: Iterable[TopicPartition]) -> dict[str, str]:
        await self._answer()
        return {place.topic: self.topic_id for place in places}

    async def beginnings(
        self, *places: TopicPartition, are_ours: bool = True
    ) -> stage_offsets.Beginnings | None:
        """What a process that has these sources finds."""
        return await stage_offsets.beginnings(
            self, places, self.topics, [OWN], LogEnd.LATEST, 0, lambda: are_ours
        )

    async def begun(self, *places: TopicPartition) -> stage_offsets.Beginnings:
        """The same, once all have begun."""
        for _ in range(100):
            if (found := await self.beginnings(*places)) is not None:
                return found
        raise AssertionError("nobody stores where all begin")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(stage_offsets, "log_bounds", made.log_bounds)
    monkeypatch.setattr(stage_offsets, "starting_offsets", made.starting_offsets)
    monkeypatch.setattr(stage_offsets, "_ids_of", made.ids_of)
    return made


@pytest.mark.parametrize("seed", seeds(60))
async def test_where_all_begin_is_stored_once_as_of_one_instant_before_any_is_sent(
    cluster: Cluster, seed: int
) -> None:
    """By every process, some would begin where another looked last, not where they were sent."""
    cluster.rng = Random(seed)

    async def run(*sources: TopicPartition) -> dict[TopicPartition, int]:
        found = await cluster.begun(*sources)
        assert not found.stopped and {place for place, _ in cluster.stored} == set(SOURCES)
        cluster.sent += 1
        return {place: at.offset for place, at in found.begins.items()}

    one, other = await asyncio.gather(run(*SOURCES[:2]), run(SOURCES[2]))
    assert one | other == dict(cluster.stored) and len(cluster.stored) == len(SOURCES)
    assert len(set(dict(cluster.stored).values())) == 1


async def test_nothing_is_stored_of_sources_that_a_rebalance_gave_away(cluster: Cluster) -> None:
    assert await cluster.beginnings(*SOURCES, are_ours=False) is None
    assert not cluster.committed


async def test_a_source_that_is_new_later_on_is_read_from_its_first_record(
    cluster: Cluster,
) -> None:
    await cluster.begun(*SOURCES)
    new = TopicPartition(TOPIC, len(SOURCES))
    cluster.ends[new] = 5
    found = await cluster.begun(new)
    assert found.begins[new].offset == 0


async def test_where_something_was_sent_a_source_without_an_offset_was_forgotten(
    cluster: Cluster,
) -> None:
    """Lanes drop what they have: to begin at the end would lose what they have not."""
    cluster.sent = 1
    found = await cluster.begun(*SOURCES)
    assert {at.offset for at in found.begins.values()} == {0}


async def test_a_log_that_lost_its_end_is_not_read_on(cluster: Cluster) -> None:
    await cluster.begun(*SOURCES)
    cluster.ends[SOURCES[0]] = 300
    found = await cluster.begun(*SOURCES)
    assert found.stopped.keys() == {SOURCES[0]}


async def test_a_topic_that_is_created_again_while_it_is_asked_where_it_begins_is_not_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def replaced(*asked: Any) -> Any:
        cluster.topic_id = "second"
        return await cluster.starting_offsets(*asked)

    monkeypatch.setattr(stage_offsets, "starting_offsets", replaced)
    found = await cluster.begun(*SOURCES)
    assert found.stopped.keys() == set(SOURCES)


async def test_who_has_not_the_first_source_stores_nothing_before_the_others_begin(
    cluster: Cluster,
) -> None:
    for _ in range(3):
        assert await cluster.beginnings(*SOURCES[1:]) is None
    assert not cluster.committed
    await cluster.begun(SOURCES[0])
    assert (await cluster.begun(*SOURCES[1:])).noted.ids == {TOPIC: "first"}


async def test_a_topic_of_which_no_partition_is_known_yet_is_waited_for(cluster: Cluster) -> None:
    cluster.topics.append("late")
    assert await cluster.beginnings(*SOURCES) is None and not cluster.committed
    cluster.ends[LATE] = 5
    assert (await cluster.begun(*SOURCES)).begins.keys() == set(SOURCES)
    assert LATE in cluster.committed


async def test_a_topic_that_is_created_again_before_its_own_process_looks_is_not_read(
    cluster: Cluster,
) -> None:
    cluster.topics.append("late")
    cluster.ends[LATE] = 5
    await cluster.begun(*SOURCES)
    cluster.topic_id = "second"
    assert (await cluster.begun(LATE)).stopped.keys() == {LATE}


async def test_a_topic_that_is_new_later_on_and_created_again_while_it_is_asked_for_is_not_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.begun(*SOURCES)
    cluster.ends[LATE] = 5
    ids = iter(["first", "second"])

    async def ids_of(*_: object) -> dict[str, str]:
        return {"late": next(ids)}

    monkeypatch.setattr(stage_offsets, "_ids_of", ids_of)
    assert (await cluster.begun(LATE)).stopped.keys() == {LATE}


async def test_where_the_topic_of_the_stage_is_created_again_sources_go_on(
    cluster: Cluster,
) -> None:
    """Kafka deletes the note with it."""
    before = await cluster.begun(*SOURCES)
    del cluster.committed[OWN]
    again = await cluster.begun(*SOURCES)
    assert {p: at.offset for p, at in again.begins.items()} == {
        p: at.offset for p, at in before.begins.items()
    }


PLACE = TopicPartition("clicks", 3)
STATE = SourceState(1_795_176_000_000).text()


@pytest.mark.parametrize(("offset", "begin", "lost_from"), [(7, 7, None), (9, 9, None), (2, 5, 2)])
def test_a_source_goes_on_where_its_log_still_has_records(
    offset: int, begin: int, lost_from: int | None
) -> None:
    for known_id in ("a", None):
        found = stage_offsets.begin_of(PLACE, (offset, STATE), (5, 9), known_id, "a")
        assert found == stage_offsets.Begin(begin, STATE, lost_from, "a")


def test_records_that_were_read_and_left_out_are_no_loss() -> None:
    read = SourceState(1_795_176_000_000, read=8).text()
    assert stage_offsets.begin_of(PLACE, (2, read), (5, 9), "a", "a") == stage_offsets.Begin(
        5, read, None, "a"
    )
    assert stage_offsets.begin_of(PLACE, (2, read), (9, 9), "a", "a") == stage_offsets.Begin(
        9, read, 8, "a"
    )


def test_a_source_that_the_group_forgot_or_that_came_later_is_read_from_its_beginning() -> None:
    assert stage_offsets.begin_of(PLACE, None, (0, 9), "a", "a") == stage_offsets.Begin(
        0, "", None, "a"
    )
    assert stage_offsets.begin_of(PLACE, None, (5, 9), None, None) == stage_offsets.Begin(
        5, "", 0, ""
    )


@pytest.mark.parametrize(("offset", "topic_id"), [(10, "a"), (7, "b")])
def test_another_log_is_not_sent_as_the_same_source(offset: int, topic_id: str) -> None:
    with pytest.raises(StartError, match=r"Set \[rekey\] topic to a new name"):
        stage_offsets.begin_of(PLACE, (offset, ""), (5, 9), "a", topic_id)


def test_a_state_that_a_tool_has_written_over_stops_the_source() -> None:
    with pytest.raises(StartError, match="stores no state of it"):
        stage_offsets.begin_of(PLACE, (7, "reset by hand"), (5, 9), "a", "a")


def test_a_state_fits_into_the_metadata_of_an_offset() -> None:
    pending = Pending({f"{n:016x}": 1_795_176_000_000 for n in range(4)}, 2**31, 24)
    state = SourceState(1_795_176_000_000, pending)
    assert len(state.text()) < 300 and state_in(state.text()) == state
    assert state_in("") == SourceState()


@pytest.mark.parametrize("asked", ["fetch_committed_offsets", "commit_offsets"])
async def test_a_group_that_does_not_answer_is_said(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """The client looks for a coordinator without end."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(resuming, "ANSWER_PATIENCE_S", 0.01)
    monkeypatch.setattr(cluster._coordinator, asked, never)
    with pytest.raises(Unavailable, match=r"no answer within 0\.01 s of the consumer group: "):
        await cluster.beginnings(*SOURCES)
