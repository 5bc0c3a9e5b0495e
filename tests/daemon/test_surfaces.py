"""Gains weighted by how likely their rank is examined, from the configuration to the series."""

import math
import re
from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.config import (
    Config,
    ConfigError,
    describe,
    differing_keys,
    load,
    restarting_keys,
)
from relevanced.daemon.lane import Lane, relaid, score_states, since_the_beginning
from relevanced.daemon.plan import Plan, Surfaces
from relevanced.daemon.recompute.buckets import view_of
from relevanced.daemon.storage import namespace_hash
from relevanced.metrics import Propensities, parse
from tests.builders import SETTLE_MS, clicked, lane_of, passing, plan_with, row, settled, shown
from tests.lane_views import exposed, read_openmetrics

TOML: Final = """
[metrics]
names = ["P@10", "IPS-P@10", "IPS-DCG@10"]
[propensities]
attribute = "device"
default = "web"
[propensities.tables.web]
version = "2026-11"
ranks = [1, 0.5, 0.05]
[propensities.tables.ios]
version = "7"
ranks = [0.8, 0.2]
"""
WEB: Final = Propensities("web", "2026-11", (1.0, 0.5, 0.05))
IOS: Final = Propensities("ios", "7", (0.8, 0.2))


def of(text: str) -> Config:
    return load(text, {}, "test")


def plan(default: str | None = None) -> Plan:
    return plan_with(
        metrics=(parse("P@3"), parse("IPS-P@3"), parse("IPS-DCG@3")),
        surfaces=Surfaces("device", (IOS, WEB), default),
    )


def seen_by(default: str | None, **attributes: str) -> Lane:
    """A list of three, shown there, of which the last two were clicked."""
    lane = lane_of(plan=plan(default))
    settled(lane, shown(0, attributes=attributes), clicked(10, "b"), clicked(20, "c"))
    return lane


# Rows


def test_a_row_has_weighted_sums_and_what_was_clipped() -> None:
    """By hand: weights 2 and 20, the latter cut to 10; IPS-P 12/3, IPS-DCG 2/log2(3) + 10/2."""
    found = row(seen_by(None, device="web"), 0)
    assert found["P@3:sum"] == 666_667
    assert (found["IPS-P@3:scored"], found["IPS-P@3:sum"]) == (1, 400_000)
    assert found["IPS-P@3:squares"] == 1_600_000
    assert found["IPS-DCG@3:sum"] == 6_262 == math.floor(1_000 * (2 / math.log2(3) + 5) + 0.5001)
    assert (found["weighted_items"], found["clipped_items"]) == (2, 1)
    assert (found["weights"], found["squared_weights"]) == (120_000, 1_040_000)


def test_each_surface_has_its_own_weights() -> None:
    assert row(seen_by(None, device="ios"), 0)["IPS-P@3:sum"] == math.floor(1e5 * 8 / 3 + 0.5001)


@pytest.mark.parametrize("attributes", [{}, {"device": "tv"}], ids=["no surface", "no table"])
def test_without_a_table_it_is_undefined_and_with_a_default_not(attributes: dict[str, str]) -> None:
    found = row(seen_by(None, **attributes), 0)
    assert (found["P@3:scored"], found["IPS-P@3:scored"], found["IPS-DCG@3:scored"]) == (1, 0, 0)
    assert (found["weighted_items"], found["weights"]) == (0, 0)
    assert row(seen_by("web", **attributes), 0)["IPS-P@3:sum"] == 400_000


def test_an_empty_list_is_zero_on_a_known_surface_and_undefined_elsewhere() -> None:
    """In any batch: longer lists beside it make the arrays wider."""
    states = [(0, ()), (3, ((0, 1.0),)), (0, ())]
    columns = [plan().metric_column(1), plan().metric_column(1) + 1]
    for listed, surfaces in ((states, [0, 2, 2]), (states[:1] + states[2:], [0, 2])):
        rows = score_states(listed, plan(), surfaces)
        assert rows[0, columns].tolist() == [0, 0] and rows[-1, columns].tolist() == [1, 0]


def test_the_surface_stays_that_of_the_first_record() -> None:
    lane = lane_of(plan=plan())
    settled(lane, shown(0, "a b", attributes={"device": "web"}))
    settled(lane, shown(10, "c", first_rank=3, attributes={"device": "ios"}), clicked(20, "b"))
    lane.start_batch()
    lane.forget_unused_states()
    settled(lane, clicked(30, "c"))
    assert row(lane, 0)["IPS-P@3:sum"] == 400_000


# Series


def test_scores_and_effective_sample_size_are_exposed() -> None:
    lane = seen_by(None, device="web")
    text = exposed([view_of(lane)], lane.plan).openmetrics
    found = {
        (sample.name, sample.labels.get("metric")): sample.value
        for family in read_openmetrics(b"".join((*text, b"# EOF\n")))
        for sample in family.samples
        if sample.labels.get("segment", "all") == "all"
        and sample.labels.get("window", "5m") == "5m"
        and sample.labels.get("view", "live") == "live"
    }
    assert found["relevanced_score", "P@3"] == pytest.approx(2 / 3, abs=1e-6)
    assert found["relevanced_score", "IPS-P@3"] == 4
    assert found["relevanced_score", "IPS-DCG@3"] == 6.262
    assert found["relevanced_ips_items", None] == 2
    assert found["relevanced_ips_effective_sample_size", None] == pytest.approx(12**2 / 104)
    assert found["relevanced_ips_clipped_ratio", None] == 0.5
    assert found["relevanced_propensities_info", None] == 1


@pytest.mark.parametrize(("before", "after"), [((3,), (3, 10)), ((3, 10), (3,))])
def test_weights_of_other_ranks_begin_anew(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    old, new = (
        replace(plan("web"), metrics=tuple(parse(f"IPS-P@{k}") for k in depths))
        for depths in (before, after)
    )
    lane = lane_of(plan=old)
    settled(lane, shown(0), clicked(10, "b"), passing(2 * SETTLE_MS))
    lane.start_batch()
    assert lane.totals.page(0)[0, old.weight_column :].any()
    changed, since = relaid(lane, new, since_the_beginning(old))
    assert not changed.totals.page(0)[0, new.weight_column :].any()
    assert since.columns[str(new.weights_id)] == lane.settled_before is not None
    assert since.columns[old.column_ids[0]] is None, "the metric goes on"
    again, _ = relaid(lane, old, since_the_beginning(old))
    assert again.totals.page(0)[0, old.weight_column :].any()


def test_without_propensities_nothing_is_added() -> None:
    lane = lane_of()
    settled(lane, shown(0), clicked(10, "b"))
    assert lane.plan.row_width == lane.plan.weight_column
    text = b"".join(exposed([view_of(lane)], lane.plan).text)
    assert b"_ips_" not in text and b"propensities" not in text


# Configuration


def test_tables_are_read_as_written() -> None:
    surfaces = of(TOML).plan.surfaces
    assert surfaces == Surfaces("device", (IOS, WEB), "web", 10.0)
    assert of(TOML).limits.attributes == ("country", "device")
    assert load(describe(of(TOML)), {}, "again") == of(TOML)


def test_the_only_table_is_the_default_and_of_several_there_is_none() -> None:
    head, _, last = TOML.replace('default = "web"', "").partition("[propensities.tables.ios]")
    one, two = of(head).plan.surfaces, of(f"{head}[propensities.tables.ios]{last}").plan.surfaces
    assert one is not None and one.default == "web"
    assert two is not None and two.default is None


@pytest.mark.parametrize(
    ("before", "after"),
    [('"7"', '"8"'), ("0.2]", "0.3]"), ('"device"', '"place"'), ('default = "web"', "clip = 5")],
)
def test_other_weights_are_another_column_of_the_same_namespace(before: str, after: str) -> None:
    old, new = of(TOML), of(TOML.replace(before, after))
    assert namespace_hash(old) == namespace_hash(new)
    assert restarting_keys(old, new) == [] and differing_keys(old, new) == ["propensities"]
    changed = [one != other for one, other in zip(old.plan.column_ids, new.plan.column_ids)]
    assert changed == [metric.needs == "propensities" for metric in old.plan.metrics]
    assert any(changed) and old.plan.surfaces_id != new.plan.surfaces_id


def test_every_fault_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        of("""
            [propensities]
            clip = 0.5
            defualt = "web"
            [propensities.tables]
            tv = 3
            [propensities.tables.web]
            ranks = [1.2, 0.5, 0]
            """)
    assert caught.value.faults == [
        "propensities.clip=0.5: must be between 1 and 1000",
        "propensities.defualt: unknown key: must be one of attribute, default, clip",
        "propensities.tables.tv=3: must be a section: [propensities.tables.tv]",
        "propensities.tables.web.ranks=1.2: must be above 0 and at most 1",
        "propensities.tables.web.ranks=0: must be above 0 and at most 1",
        "propensities.tables.web.version: must be given: scores of different estimates"
        " cannot be compared",
    ]


BROKEN: Final = {
    "no table": ("[propensities]", "propensities.tables: at least one table is needed"),
    "no effect": (
        '[propensities.tables.web]\nversion = "1"\nranks = [1]',
        "propensities: has no effect: needs IPS-P or IPS-DCG in metrics.names",
    ),
    "no propensities": ('[metrics]\nnames = ["IPS-P@5"]', "metrics.names=IPS-P@5: needs propens"),
    "too deep": (
        '[metrics]\nnames = ["IPS-P"]\ndepth = 2\n'
        '[propensities.tables.web]\nversion = "1"\nranks = [1, 1, 1]',
        "propensities.tables.web.ranks=3: must be at most depth (2) ranks",
    ),
    "no ranks": (
        '[metrics]\nnames = ["IPS-P"]\n[propensities.tables.web]\nversion = "1"\nranks = []',
        "propensities.tables.web.ranks: must be given",
    ),
    "no such default": (
        TOML.replace('default = "web"', 'default = "tv"'),
        "propensities.default=tv: must be one of propensities.tables",
    ),
    "no section": ("propensities = 3", "propensities=3: must be a section: [propensities]"),
    "no tables": ("[propensities]\ntables = 3", "propensities.tables=3: at least one table is"),
    "too large": (
        '[metrics]\nnames = ["IPS-DCG@5"]\nmax_grade = 24\n'
        '[propensities]\nclip = 1000\n[propensities.tables.web]\nversion = "1"\nranks = [1]',
        "metrics.names=IPS-DCG@5: can become too large to be counted",
    ),
}


@pytest.mark.parametrize(("text", "fault"), BROKEN.values(), ids=BROKEN)
def test_each_rule_is_reported(text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(fault)):
        of(text)
