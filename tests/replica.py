"""The product's lane in the oracle's terms, so that the two can be compared with `==`."""

from collections.abc import Mapping, Sequence

from relevanced.daemon.events import Decoder, Limits, decoder
from relevanced.daemon.experiments import IMPRESSION, MOST_BUSY, USER, Arm, Spec, Tracking
from relevanced.daemon.lane import PAGE_ROWS, Lane, Pages, Rows
from relevanced.daemon.plan import COUNT_COLUMNS, METRIC_COLUMNS, WEIGHT_COLUMNS, Plan, Surfaces
from relevanced.daemon.queries import Derivation
from relevanced.daemon.storage import Head, blob_keys
from relevanced.daemon.timing import timing
from relevanced.metrics import Propensities, catalog
from tests import oracle_arms
from tests.oracle import LaneResult, OracleConfig
from tests.oracle_queries import Dated, Rule

Row = dict[str, int]
Cells = dict[tuple[int, str], int]
OracleArm = tuple[
    Cells,
    int,
    list[int],
    dict[tuple[int, int], int],
    dict[str, Cells],
    dict[int, int],
    dict[int, str],
    dict[int, int],
]
OracleArms = dict[str, dict[str, OracleArm]]
OracleDay = dict[str, tuple[int, int, dict[tuple[int, int], int]]]
OracleDays = dict[str, tuple[int, dict[int, OracleDay]]]


def plan_of(config: OracleConfig) -> Plan:
    """The product's plan for an oracle's configuration."""
    return Plan(
        timing=timing(
            [(f"{seconds}s", seconds) for seconds in config.windows_s],
            config.attribution_window_s,
            config.lateness_s,
        ),
        metrics=tuple(
            catalog.parse(name, relevant_from=config.relevant_from, max_grade=config.highest_grade)
            for name in config.metric_names
        ),
        groupings=config.groupings,
        grades=config.grades,
        max_segments=config.max_segments,
        depth=config.depth,
        tracking=tracking_of(config),
        history_hours=config.history_hours,
        hour_ms=config.hour_s * 1000,
        surfaces=surfaces_of(config),
        derivations=derivations_of(config),
        touch_ms=None if config.join == "id" else config.touch_wait_s * 1000,
        most_touched=config.most_touched,
    )


def derivations_of(config: OracleConfig) -> tuple[Derivation, ...]:
    """The product's derivations for an oracle's configuration."""
    return tuple(derivation_of(name, rule) for name, rule in config.derive.items())


def derivation_of(name: str, rule: Rule) -> Derivation:
    """The product's derivation of an attribute, for a rule of the oracle."""
    if isinstance(rule, Dated):
        return Derivation(name, by_files=True, unlisted=rule.unlisted)
    if isinstance(rule, Mapping):
        return Derivation(name, patterns=tuple(rule.items()))
    return Derivation(name, words=tuple(rule))


def surfaces_of(config: OracleConfig) -> Surfaces | None:
    """The product's propensities for an oracle's configuration."""
    if not config.propensities:
        return None
    by_surface = config.propensities.items()
    tables = tuple(Propensities(surface, "1", tuple(ranks)) for surface, ranks in by_surface)
    return Surfaces(config.surface, tables, config.default_surface, config.clip)


def tracking_of(config: OracleConfig) -> Tracking | None:
    """The product's experiments for an oracle's configuration: all metrics of all of them."""
    if not config.units and not config.discovered:
        return None
    names = tuple(
        catalog.parse(name, relevant_from=config.relevant_from, max_grade=config.highest_grade).name
        for name in config.metric_names
    )
    others = Spec("", "control", 1_000, names, declared=False)
    declared = {
        name: Spec(name, "control", 1_000, names, unit=unit, stratify_by=config.stratify.get(name))
        for name, unit in config.units.items()
    }
    return Tracking(declared, config.discovered, others)


def decoder_of(config: OracleConfig) -> Decoder:
    grouped = {name for names in config.groupings for name in names}
    grouped |= {unit for unit in config.units.values() if unit not in (USER, IMPRESSION)}
    grouped |= {config.surface} if config.propensities else set()
    grouped -= {*config.derive}
    limits = Limits(
        depth=config.depth,
        max_grade=config.highest_grade,
        max_future_ms=config.max_future_s * 1000,
        max_record_bytes=config.max_record_bytes,
        attributes=tuple(sorted(name for name in grouped if not name.startswith("experiment:"))),
        ubi_lists="shown" if config.ubi_shown else "logged",
        queries=bool(config.derive),
        join=config.join,
    )
    return decoder("ubi" if config.ubi_shown else "native", limits)


def columns_of(plan: Plan) -> list[str]:
    parts = [f"{metric.name}:{column}" for metric in plan.metrics for column in METRIC_COLUMNS]
    return [*COUNT_COLUMNS, *parts, *(() if plan.surfaces is None else WEIGHT_COLUMNS)]


def row_dicts(
    pages: Pages, names: Sequence[tuple[int, str]], plan: Plan
) -> dict[tuple[str, str], Row]:
    """(grouping, segment) → the row's counters; rows of zeros are left out."""
    columns = columns_of(plan)
    found = {}
    for page, rows in pages.items():
        for (grouping, segment), row in zip(names[page * PAGE_ROWS :], rows, strict=False):
            if row.any():
                found[(plan.grouping_names[grouping], segment)] = dict(zip(columns, row.tolist()))
    return found


def rows_of(lane: Lane) -> dict[tuple[int, int, str, str], Row]:
    """(window s, pane start s, grouping, segment) → row, of the panes that are kept."""
    found = {}
    for (window_index, start_ms), rows in lane.panes.items():
        window_s = lane.plan.timing.windows[window_index].length_ms // 1000
        for (grouping, segment), row in row_dicts(
            rows.pages, lane.segments.names, lane.plan
        ).items():
            found[(window_s, start_ms // 1000, grouping, segment)] = row
    return found


def every_key(head: Head, listed: Sequence[str]) -> list[str]:
    """All keys that a store has of a lane: those that its writer reads, and earlier hours."""
    return list(dict.fromkeys([*blob_keys(head, listed), *listed]))


def hours_of(lane: Lane) -> dict[tuple[int, str, str], Row]:
    """(hour start s, grouping, segment) → row, of the hours that were read."""
    found = {}
    for start_ms, rows in lane.hours.items():
        for key, row in row_dicts(rows.pages, lane.segments.names, lane.plan).items():
            found[(start_ms // 1000, *key)] = row
    return found


QueryTotals = dict[tuple[int, str], list[int]]


def query_totals(lane: Lane) -> QueryTotals:
    """(hour start s, kind) → the counts of all queries together, of the hour that is open."""
    queries = lane.queries
    if queries is None or queries.hour_ms is None:
        return {}
    hour_s = queries.hour_ms // 1000
    whole = {kind: table.total.tolist()[:3] for kind, table in queries.tables.items()}
    return {(hour_s, kind): counts for kind, counts in whole.items()}


def expected_query_totals(lane: Lane, expected: LaneResult) -> QueryTotals:
    """The same by the rows of the oracle, of the tables that the lane has."""
    names = ("impressions", "zero_result_impressions", "impressions_with_feedback")
    found: QueryTotals = {}
    for hour_s, kind in query_totals(lane):
        row = expected.hours.get((hour_s, "all", "all"), {})
        counts = [row.get(name, 0) for name in names]
        found[hour_s, kind] = counts[1:2] if kind == "zero" else counts
    return found


def counts_of(lane: Lane) -> Mapping[str, dict[str, int]]:
    return {
        family: {k: v for k, v in labels.items() if v} for family, labels in lane.counts.items()
    }


def open_of(lane: Lane) -> dict[tuple[str, int], tuple[tuple[str | None, ...], tuple[float, ...]]]:
    impressions, found = lane.open, {}
    for slot in impressions.slots_in(impressions.panes()):
        index = impressions.index_of(slot)
        length, cells = lane.states[impressions.states[index]]
        gains = [0.0] * length
        for rank0, gain in cells:
            gains[rank0] = gain
        key = (impressions.ids[index].decode(), impressions.times_ms[index])
        found[key] = (tuple(impressions.list_of(slot)), tuple(gains))
    return found


def arms_of(lane: Lane) -> OracleArms:
    """Experiment → variant → (cells, impressions without a unit, sketch, credits, strata,
    hours, first segments of users, busiest users of the last day)."""
    columns = ["impressions", *columns_of(lane.plan)[len(COUNT_COLUMNS) :]]

    def cells(tallies: Rows) -> Cells:
        return {
            (bucket, columns[column]): int(tallies[bucket, column])
            for bucket, column in zip(*tallies.nonzero(), strict=True)
        }

    return {
        name: {
            variant: (
                cells(arm.tallies),
                arm.without_unit,
                arm.users.tolist(),
                credits_of(arm.credits),
                {segment: cells(part) for segment, part in arm.strata.items()},
                {hour: count for hour, count in enumerate(arm.hours.tolist()) if count},
                {user: segment for segment, of in arm.homes.items() for user in of.tolist()},
                _units_today(arm),
            )
            for variant, arm in tallies.arms.items()
        }
        for name, tallies in lane.experiments.by_name.items()
    }


def days_of(lane: Lane) -> OracleDays:
    """Experiment → (its first pane in ms, start of each ended day → variant → (impressions,
    sum of all its tallies, credits))."""
    return {
        name: (
            one.began_ms,
            {
                day_ms: {
                    variant: (arm.impressions, int(arm.tallies.sum()), credits_of(arm.credits))
                    for variant, arm in arms.items()
                }
                for day_ms, arms in one.ends.items()
            },
        )
        for name, one in lane.experiments.by_name.items()
    }


def expected_days(expected: LaneResult) -> OracleDays:
    """The same of the oracle."""
    return {
        name: (
            one.began_ms,
            {
                day_ms: {
                    variant: (_shown(arm), sum(arm.cells.values()), dict(arm.credits))
                    for variant, arm in arms.items()
                }
                for day_ms, arms in one.ends.items()
            },
        )
        for name, one in expected.experiments.items()
    }


def _shown(arm: oracle_arms.Arm) -> int:
    of_units = sum(n for (_, column), n in arm.cells.items() if column == "impressions")
    return of_units + arm.without_unit


def credits_of(tallies: Rows) -> dict[tuple[int, int], int]:
    """(bucket, credit) → interleaved lists."""
    found = {}
    for bucket, (count, total, squares) in enumerate(tallies.tolist()):
        counts = {1: (squares + total) // 2, 0: count - squares, -1: (squares - total) // 2}
        found.update({(bucket, credit): n for credit, n in counts.items() if n})
    return found


def _units_today(arm: Arm) -> dict[int, int]:
    """Unit → impressions; nothing where not all units are followed any more: the summary depends on
    how panes came, and has its own tests."""
    found = arm.busiest_today
    if found.impressions.sum() < arm.hours.sum():
        return {}
    return dict(zip(found.units.tolist(), found.impressions.tolist(), strict=True))


def _all_units(today: Mapping[int, int]) -> dict[int, int]:
    return dict(today) if len(today) <= MOST_BUSY else {}


def expected_arms(
    expected: LaneResult,
) -> OracleArms:
    """The same of the oracle."""
    return {
        name: {
            variant: (
                {cell: n for cell, n in arm.cells.items() if n},
                arm.without_unit,
                arm.sketch,
                arm.credits,
                {s: {c: n for c, n in cells.items() if n} for s, cells in arm.strata.items()},
                dict(arm.hours),
                arm.homes,
                _all_units(arm.today),
            )
            for variant, arm in experiment.arms.items()
        }
        for name, experiment in expected.experiments.items()
    }


def assert_equal(lane: Lane, expected: LaneResult) -> None:
    """Everything that both keep of a lane is the same, integer for integer."""
    plan, counts = lane.plan, counts_of(lane)
    assert counts["events"] == {k.removesuffix("s"): v for k, v in expected.events.items() if v}
    assert counts["rejected"] == expected.rejected
    assert counts["impression_outcomes"] == expected.impression_outcomes
    assert counts["feedback_outcomes"] == expected.feedback_outcomes
    assert counts["segment_overflow"] == expected.segment_overflow
    assert lane.watermarks == dict(expected.watermarks)
    assert counts.get("ahead_events", {}) == {k: v for k, v in expected.ahead.items() if v}
    assert rows_of(lane) == kept_rows(lane, expected)
    assert row_dicts(lane.totals.pages, lane.segments.names, plan) == expected.totals
    assert open_of(lane) == expected.open
    assert arms_of(lane) == expected_arms(expected)
    assert days_of(lane) == expected_days(expected)
    assert counts.get("experiment_overflow", {}) == expected.experiment_overflow
    waiting = [
        (w.impression_id, w.time_ms, w.item, w.rank, w.kind, w.grade)
        for w in lane.waiting.by_serial.values()
    ]
    assert sorted(waiting, key=repr) == sorted(expected.waiting, key=repr)


def kept_rows(lane: Lane, expected: LaneResult) -> dict[tuple[int, int, str, str], Row]:
    """The oracle's rows without the panes that no view can need any more."""
    watermark = lane.watermark_ms
    if watermark is None:
        return dict(expected.rows)
    spans = {span.length_ms // 1000: span for span in lane.plan.timing.windows}
    return {
        key: row
        for key, row in expected.rows.items()
        if key[1] * 1000 >= lane.plan.timing.dropped_before(spans[key[0]], watermark)
    }
