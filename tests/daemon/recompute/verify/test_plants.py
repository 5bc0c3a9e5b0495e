"""Of single changes in every kind of value of a lane, all are said, but for what is left out."""

import random
from dataclasses import fields, replace

import msgspec
import pytest

from relevanced.daemon.errors import Damaged
from relevanced.daemon.events import timestamp_text
from relevanced.daemon.experiments import tallies
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.recompute.proof import MOVED, NEVER_COMPARED, Outcome, as_json, as_text
from relevanced.daemon.storage import OPTIONAL_KEYS, Head, WriterState, head_of, pack, unpack
from tests.daemon.recompute.verify.plants import HEAD, KEYS, kind_of, plants
from tests.daemon.recompute.verify.whole_lanes import TRAFFIC, Parts, WholeLane, proof_of

EVERYTHING = Parts(
    queries=QueryPlan(by="country", kept=5, min_users=1, examples=2),
    judged=True,
    missing=True,
    classes=True,
    experiments=True,
    propensities=TRAFFIC,
)
WRITTEN, BLOCKS = "token, sequence", "numbers of blocks"
LAYOUTS, EXPERIMENTS = (
    "generation, digest, text, panes and history of layouts",
    "since when a changed experiment",
)
UNITS = "the busiest units of an experiment"
LEFT_OUT = {
    "head.token": WRITTEN,
    "head.sequence": WRITTEN,
    "head.state.next_serial": BLOCKS,
    "head.state.blocks[].first_slot": BLOCKS,
    "head.state.blocks[].end_slot": BLOCKS,
    "head.state.blocks[].first_serial": BLOCKS,
    "head.state.blocks[].end_serial": BLOCKS,
    "head.state.blocks[].expires_ms": BLOCKS,
    "head.state.blocks[].size": BLOCKS,
    "open:#.new": BLOCKS,
    "open:#.waiting[][]": BLOCKS,
    "layouts.layouts[].generation": LAYOUTS,
    "layouts.layouts[].digest": LAYOUTS,
    "layouts.layouts[].text": LAYOUTS,
    "layouts.layouts[].panes{}": LAYOUTS,
    "layouts.layouts[].history_hours": LAYOUTS,
    "head.queries.kept_from_ms": "from which hour on tables of queries are kept",
    "head.state.experiments[].name": EXPERIMENTS,
    "head.state.experiments[].since_ms": EXPERIMENTS,
    "experiment:#.users_since_ms": UNITS,
    "experiment:#.variants[].busiest[]": UNITS,
    "experiment:#:day:#.variants[].busiest[]": UNITS,
}
"""Field → how what is never compared begins."""
NOTED = {
    "head.queries.key": "hashed with another key",
    "head.queries.unicode": "Unicode",
    "head.judged.columns[]": "the lane has other judged metrics",
}
"""Field → what a note says, because of which nothing is compared that depends on it."""
ELSEWHERE = {"logs", "idle_ms", "stall", "lifts", "taken", "since_ms"}
"""Marks of logs are compared where these are opened, and the others are never compared: since when
a lane has all of its logs follows from what they had lost by then."""


@pytest.fixture(autouse=True)
def short_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "DAY_MS", 60_000)


def lane_with_everything() -> WholeLane:
    machine = WholeLane(random.Random(1), EVERYTHING, 1, events=400, span_s=900)
    first = min(machine.classes)  # all classes are known
    machine.classes[replace(first, start_ms=0, name="first")] = machine.classes.pop(first)
    machine.store = type(machine.store)()
    machine.claimed = machine.claim()
    return machine.run(crashes=False, unread=210)


def outcome_of(machine: WholeLane) -> Outcome | None:
    """None: the lane is damaged, and so not provable."""
    try:
        return proof_of(machine)
    except Damaged:
        return None


def test_every_field_is_compared_or_left_out_with_a_reason() -> None:
    machine = lane_with_everything()
    healthy, store = proof_of(machine), machine.store
    assert healthy.result == "equal" and not healthy.notes, as_text([healthy])
    assert {kind_of(key) for key in store.blobs} == {*KEYS}, "the lane has all kinds of keys"
    assert {*store.fields} == {*HEAD}
    of_rows = {keys.field for keys in OPTIONAL_KEYS.values()}
    said = {one.name for one in fields(Head)} - {"optional_rows"} | of_rows
    assert said == {*HEAD} - {"keys", "names"} | ELSEWHERE
    missed: dict[str, Outcome] = {}
    for name, plant in plants(store, random.Random(2)).items():
        machine.store = plant(store)
        found = outcome_of(machine)
        if found is not None and found.result == "equal":
            missed[name] = found
    assert missed.keys() <= LEFT_OUT.keys() | NOTED.keys()
    for name, found in missed.items():
        whats = [one.what for one in found.left_out]
        noted = NOTED.get(name, "never")
        assert any(noted in note for note in found.notes) == (name in NOTED), name
        assert name in NOTED or any(one.startswith(LEFT_OUT[name]) for one in whats), name


def with_state(machine: WholeLane, **changes: object) -> Outcome:
    """The outcome once fields of the state in the head are replaced."""
    fields = dict(machine.store.fields)
    state = unpack(fields["state"], WriterState)
    fields["state"] = pack(msgspec.structs.replace(state, **changes))
    machine.store = replace(machine.store, fields=fields)
    return proof_of(machine)


def test_block_that_would_be_dropped_too_early_is_said() -> None:
    machine = lane_with_everything()
    early = [
        msgspec.structs.replace(one, expires_ms=one.expires_ms - 60_000)
        for one in head_of(machine.store.fields).state.blocks
    ]
    found = with_state(machine, blocks=early)
    assert found.result == "differs", as_text([found])
    assert {one.what for one in found.first} == {"open impressions"}


def test_hours_that_are_not_compared_are_named_with_the_reason() -> None:
    machine = lane_with_everything()
    start = min(key for key in machine.store.listed if key.startswith("hours:")).split(":")[1]
    found = with_state(machine, lost_hours=[int(start)])
    hours = [one for one in found.left_out if one not in NEVER_COMPARED]
    assert [one.reason for one in hours] == ["the store has lost a part of them"]
    named = f"hours {timestamp_text(int(start))}"
    assert hours[0].what == named and f"{named} are not compared" in as_text([found])
    listed = msgspec.json.decode(as_json([found]))[0]["left_out"]
    assert {"what": named, "reason": hours[0].reason} in listed
    assert len(listed) == len(NEVER_COMPARED) + 1
    assert all(one.reason in as_text([found]) for one in NEVER_COMPARED)


def test_what_the_writer_reads_is_left_out_where_the_lane_went_on() -> None:
    machine = lane_with_everything()
    found = proof_of(machine, writer=False)
    assert (found.result, found.notes) == ("equal", (MOVED,))
