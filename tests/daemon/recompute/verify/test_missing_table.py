"""The table of items without a judgement is proven by the log and by the files of the lane."""

import random
from dataclasses import replace

import msgspec
import pytest

from relevanced.daemon.lane import MISSING
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.recompute.proof import as_text
from relevanced.daemon.storage import hour_of, pack, unpacked_hour
from tests.daemon.recompute.verify.test_judged_rows import proven
from tests.daemon.recompute.verify.test_query_tables import plus_one
from tests.daemon.test_judged_equality import random_files
from tests.daemon.test_missing_equality import ITEMS, MissingMachine, lane_of


def lane(seed: int) -> MissingMachine:
    rng = random.Random(seed)
    logs, times = lane_of(rng, 2)
    files = random_files(rng, times[len(times) // 3], ITEMS)
    machine = MissingMachine(rng, logs, files, QueryPlan(kept=2, min_users=2))
    machine.run(crashes=True)
    return machine


def changed(machine: MissingMachine) -> MissingMachine:
    """The lane with one more search in the first row of the first hour that has one."""
    for key, data in sorted(machine.store.blobs.items()):
        if hour_of(key) is None or not (hour := unpacked_hour(data)).tables[MISSING].keys:
            continue
        table = hour.tables[MISSING]
        table = msgspec.structs.replace(table, sums=plus_one(table.sums))
        changed_hour = msgspec.structs.replace(hour, tables=hour.tables | {MISSING: table})
        machine.store.blobs[key] = pack(changed_hour)
        return machine
    raise AssertionError("no hour has such a table")


@pytest.mark.parametrize("seed", range(3))
def test_log_and_files_prove_the_table_and_a_changed_integer_is_found(seed: int) -> None:
    machine = lane(seed)
    assert machine.files is not None
    found = proven(machine, machine.files, machine.files)
    assert found.result == "equal" and found.query_hours > 2, as_text([found])
    found = proven(changed(machine), machine.files, machine.files)
    assert found.result == "differs", as_text([found])
    assert [one.what for one in found.first if one.what != "bytes"] == ["queries"]
    assert "missing=row 1, impressions: stored" in as_text([found])


def test_without_the_files_the_other_tables_are_compared() -> None:
    machine = changed(lane(1))
    assert machine.files is not None
    found = proven(machine, machine.files, {})
    assert {one.what for one in found.first} <= {"bytes"} and found.query_hours > 2
    assert any("judged rows are not provable" in note for note in found.notes)


def test_hours_from_before_it_was_switched_off_are_no_damage() -> None:
    machine = lane(2)
    assert machine.files is not None
    machine.plan = replace(machine.plan, missing=False)
    machine.relay()
    found = proven(machine, machine.files, machine.files)
    assert found.result == "equal" and found.query_hours > 2, as_text([found])
