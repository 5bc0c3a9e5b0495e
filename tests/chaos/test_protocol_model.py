"""An exhaustive search of the commit protocol: nothing is lost, counted twice or stuck, each of its
comparisons is needed, and the scripts on real servers answer as the model does."""

from collections.abc import Mapping
from dataclasses import fields, replace

import msgspec
import pytest

from relevanced.daemon.errors import Lost
from relevanced.daemon.storage import (
    Commit,
    DamagedLane,
    Head,
    LaneStart,
    LaneStore,
    WriterState,
    lane_store as commits,
    pack,
)
from tests.chaos import protocol_search, protocol_store as model
from tests.chaos.protocol_model import LaneMemory, World, next_calls
from tests.chaos.protocol_search import Found, search
from tests.chaos.protocol_store import Rules
from tests.services.redis_lanes import client_at
from tests.services.redis_server import RedisServer

TOPICS = ("impressions", "feedback")
NAMESPACE, LANE = "model", 0
PREFIX = f"{{{NAMESPACE}:{LANE}}}:"

BREAKS = {
    # Rule that is turned off: (number of faults needed, what goes wrong then).
    "compare_token": (1, "wrong"),
    "compare_sequence": (1, "wrong"),
    "compare_when_idle": (1, "stuck"),
    "compare_when_loading": (2, "wrong"),
    "check_parts": (1, "wrong"),
    "start_in_claim": (1, "wrong"),
    "new_token_per_claim": (2, "wrong"),
}
LOSSES = {
    # The same where the store loses keys.
    "compare_counts": (1, "wrong"),
    "check_keys": (2, "wrong"),
    "verify_when_running": (1, "stuck"),
    "know_beginning": (1, "wrong"),
}


@pytest.mark.parametrize(("ends", "most_faults"), [((2, 1), 2), ((2, 2), 2)])
def test_lane_survives_faults(ends: tuple[int, int], most_faults: int) -> None:
    result = search(World(ends), most_faults)
    assert result.broken is None, f"these steps break the lane:\n{result.broken}"
    assert len(result.found) > 10_000


@pytest.mark.parametrize("rule", BREAKS)
def test_rule_is_needed(rule: str) -> None:
    most_faults, harm = BREAKS[rule]
    broken = search(World(rules=replace(Rules(), **{rule: False})), most_faults).broken
    assert broken is not None, f"without {rule} nothing goes wrong with {most_faults} faults"
    assert broken.splitlines()[-1].startswith(harm), broken


@pytest.mark.parametrize(("ends", "most_faults"), [((1, 1), 2)])
def test_lane_survives_lost_keys(ends: tuple[int, int], most_faults: int) -> None:
    result = search(World(ends, loses_keys=True), most_faults)
    assert result.broken is None, f"these steps break the lane:\n{result.broken}"
    assert len(result.found) > 5_000


@pytest.mark.parametrize("rule", LOSSES)
def test_rule_is_needed_where_keys_are_lost(rule: str) -> None:
    most_faults, harm = LOSSES[rule]
    world = World((1, 1), rules=replace(Rules(), **{rule: False}), loses_keys=True)
    broken = search(world, most_faults).broken
    assert broken is not None, f"without {rule} nothing goes wrong with {most_faults} faults"
    assert broken.splitlines()[-1].startswith(harm), broken


def test_every_rule_is_turned_off_once() -> None:
    assert BREAKS.keys() | LOSSES.keys() == {field.name for field in fields(Rules)}


@pytest.fixture
def all_states(monkeypatch: pytest.MonkeyPatch) -> Found:
    """All states, including those with calls and memories that can have no effect."""
    with monkeypatch.context() as patch:
        patch.setattr(protocol_search, "without_futile", lambda state, saved: state)
        return search(World(), 1).found


def test_simplifying_states_hides_no_content_of_the_store(all_states: Found) -> None:
    fewer = contents(search(World(), 1).found)
    assert contents(all_states) == fewer
    assert len(fewer) > 10


def contents(found: Found) -> set[tuple[object, model.Sums]]:
    """The contents of the store over all states, without tokens."""
    stores = [node.state.redis for node in found]
    return {(store.head and store.head[1:], store.sums) for store in stores}


# The scripts


class WithoutStaging(LaneStore):
    """A store whose staged parts are written by the test, or left out."""

    async def _stage(self, values: Mapping[str, bytes]) -> None:
        pass


async def test_scripts_answer_as_the_model_does(
    redis: RedisServer, all_states: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "INLINE_BYTES", 0)  # the model's parts are all staged
    lossy = World((1, 1), loses_keys=True)
    cases = list(dict.fromkeys(all_cases(all_states) + all_cases(search(lossy, 1).found)))
    assert len(cases) > 300
    async with client_at(redis.url) as client:
        store = WithoutStaging(client, NAMESPACE)
        for before, call in cases:
            await client.flushall()
            for command in commands(before, call):
                await client.execute_command(*command)
            answer = await answer_of_scripts(store, call)
            after, expected = answer_of_model(before, call)
            assert answer == expected, (before, call)
            stored = await client.hmget(f"{PREFIX}head", "token", "sequence", "offsets")
            sums = await client.mget(*[f"{PREFIX}totals:{topic}" for topic in range(2)])
            assert stored == head_values(after.head), (before, call)
            assert tuple(int(total or 0) for total in sums) == after.sums, (before, call)


Request = model.Claim | model.Commit | model.Anew | LaneMemory


def all_cases(found: Found) -> list[tuple[model.Redis, Request]]:
    """Every state of the store with every claim, commit and comparison that may reach it."""
    cases: dict[tuple[model.Redis, Request], None] = {}
    for node in found:
        state = node.state
        calls = [call for w in state.workers for call in next_calls(state, w, World())]
        cases |= {
            (state.redis, call): None
            for call in (*calls, *state.late)
            if not isinstance(call, model.Stage)
        }
        cases |= {(state.redis, w.memory): None for w in state.workers if w.memory is not None}
    return list(cases)


def answer_of_model(redis: model.Redis, call: Request) -> tuple[model.Redis, object]:
    if isinstance(call, LaneMemory):
        return redis, model.is_current(redis, call.token, call.sequence)
    after, answer = model.executed(redis, call, Rules())
    return after, head_values(answer) if isinstance(answer, model.Head) else answer


def of_head(head: Head) -> list[bytes]:
    return [head.token.encode(), b"%d" % head.sequence, msgspec.json.encode(head.offsets)]


async def answer_of_scripts(store: LaneStore, call: Request) -> object:
    """The answer of the scripts, translated into that of the model."""
    if isinstance(call, model.Claim):
        try:
            return of_head(await store.claim(LANE, str(call.token), offsets_of(call.start)))
        except DamagedLane as damage:
            assert damage.token == "" and damage.start is not None
            return model.Gone(tuple(damage.start.offsets[topic] for topic in TOPICS))
    if isinstance(call, model.Anew):
        found = str(call.found) if call.found else ""
        try:
            token, start = str(call.token), offsets_of(call.start)
            return of_head(await store.begin_anew(LANE, found, token, start))
        except Lost:
            return "lost"
    if isinstance(call, LaneMemory):
        kept = await store.touch(LANE, str(call.token), call.sequence, None)
        assert await may_load(store, call) == kept
        return kept
    blobs = {f"totals:{topic}": b"%d" % total for topic, total in call.parts}
    written = {"offsets": msgspec.json.encode(offsets_of(call.offsets))}
    kept = () if call.repair else None
    commit = Commit(
        LANE, str(call.token), call.sequence, blobs, written, {}, (), list(blobs), (), kept
    )
    return await store.commit(commit)


async def may_load(store: LaneStore, memory: LaneMemory) -> bool:
    try:
        head = Head(str(memory.token), memory.sequence, {})
        try:
            missing = await store.verify(LANE, head.token, head.sequence)
        except DamagedLane:
            missing = ["the list"]
        assert await is_read(store) != bool(missing)
        if missing != ["the list"]:
            await store.load(LANE, head, lambda head, keys: [])
    except Lost:
        return False
    return True


async def is_read(store: LaneStore) -> bool:
    """Whether a reader gets the lane: only where its owner finds it whole."""
    try:
        return await store.read(LANE, "", None, 1) is not None
    except DamagedLane:
        return False


def commands(redis: model.Redis, call: Request) -> list[tuple[str | int | bytes, ...]]:
    """The commands that bring an empty server into a state of the model."""
    made: list[tuple[str | int | bytes, ...]] = []
    if redis.head is not None:
        names = ("token", "sequence", "offsets")
        pairs = zip(names, head_values(redis.head), strict=True)
        made += [("HSET", f"{PREFIX}head", name, value or b"") for name, value in pairs]
        fields = {"keys": redis.head.keys, "names": 0, "state": pack(WriterState())}
        fields |= {"watermarks": b"{}", "counts": b"{}"}
        made += [("HSET", f"{PREFIX}head", name, value) for name, value in fields.items()]
    if redis.began is not None:
        began = msgspec.json.encode(LaneStart(offsets_of(redis.began), {}))
        made.append(("HSET", f"{NAMESPACE}:meta", f"start:{LANE}", began))
    made += [("ZADD", f"{PREFIX}changes", 1, f"totals:{n}") for n in redis.listed]
    made += [("SET", f"{PREFIX}totals:{n}", total) for n, total in enumerate(redis.sums) if total]
    numbers = {}
    if isinstance(call, model.Commit):  # parts are numbered in the order of the commit
        numbers = {topic: number for number, (topic, _) in enumerate(call.parts)}
    for token, sequence, topic, total in redis.staged:
        number = numbers.get(topic, topic)
        made.append(("SET", f"{PREFIX}stage:{token}:{sequence}:{number}", total, "EX", 100))
    return made


def head_values(head: model.Head | None) -> list[bytes | None]:
    if head is None:
        return [None, None, None]
    assert head.offsets is not None
    offsets = msgspec.json.encode(offsets_of(head.offsets))
    return [b"%d" % head.token, b"%d" % head.sequence, offsets]


def offsets_of(offsets: model.Offsets) -> dict[str, int]:
    return dict(zip(TOPICS, offsets, strict=True))
