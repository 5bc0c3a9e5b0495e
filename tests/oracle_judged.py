"""What the oracle says of judged rows: record by record, each list scored by `evaluate`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from relevanced.metrics import Lists, evaluate, parse
from tests import oracle
from tests.oracle import Accepted, Impression, LaneResult, OracleConfig, Record

Grades = Mapping[str, Mapping[str, float]]
Key = tuple[int, int, str, str]


def run(
    of_topic: Mapping[str, Sequence[Record]],
    config: OracleConfig,
    names: Sequence[str],
    files: Sequence[tuple[int, Grades]],
    query_of: Callable[[Impression], str],
) -> tuple[dict[Key, list[int]], Counter[str]]:
    """(window s, pane start s, grouping, segment) → row of every pane that was ever touched, and
    how many records came too late. `files` are (start in ms, query → item → grade)."""
    rows: dict[Key, list[int]] = {}
    late: Counter[str] = Counter()
    base, tardy = oracle.base_pane_ms(config), set[int]()
    for shown, before, met in changes_of(of_topic, config):
        if met >= shown.time_ms // base * base + base + config.lateness_s * 1000:
            tardy.add(id(shown))
        judged = judged_by(files, shown, query_of)
        if judged is None:
            continue
        if id(shown) in tardy:
            late["impression" if before is None else "page"] += 1
            continue
        row = row_of(shown.items, judged, names)
        if before is not None:
            row = [n - m for n, m in zip(row, row_of(before, judged, names))]
        _count(rows, shown, row, config)
    return {key: row for key, row in rows.items() if any(row)}, late


def changes_of(
    of_topic: Mapping[str, Sequence[Record]], config: OracleConfig
) -> Iterator[tuple[Accepted, list[str | None] | None, float]]:
    """Each impression whose list a record gives or changes, its list until then, and the watermark
    that the record met."""
    result, ids = LaneResult(watermarks=dict.fromkeys(of_topic)), oracle.Ids()
    for log, records in of_topic.items():
        seen: dict[str, dict[str, int]] = {}
        for read in oracle.read_partition(records, config, result, log):
            if not isinstance(read.event, Impression):
                continue
            for one, outcome, lists in ids.read(read, log, config):
                of_id = ids.accepted[read.event.id]
                if outcome == "accepted":
                    of_id[-1].event = one.event
                    of_id[-1].segments = oracle.admit(
                        one.event, one.watermark, seen, result.segment_overflow, config
                    )
                if outcome in ("accepted", "filled", "extended"):
                    (n,) = [n for n, of in enumerate(of_id) if lists[n : n + 1] != [of.items]]
                    yield of_id[n], lists[n] if n < len(lists) else None, one.met


def judged_by(
    files: Sequence[tuple[int, Grades]], shown: Accepted, query_of: Callable[[Impression], str]
) -> Mapping[str, float] | None:
    """Item → grade of the query, by the file in force."""
    assert shown.event is not None
    started = [grades for start, grades in files if start <= shown.time_ms]
    return started[-1].get(query_of(shown.event)) if started else None


def _count(
    rows: dict[Key, list[int]], shown: Accepted, row: Sequence[int], config: OracleConfig
) -> None:
    for grouping, segment in shown.segments.items():
        for window_s in config.windows_s:
            pane_s = oracle.pane_s(window_s)
            key = (window_s, shown.time_ms // 1000 // pane_s * pane_s, grouping, segment)
            before = rows.setdefault(key, [0] * len(row))
            rows[key] = [n + m for n, m in zip(before, row)]


def row_of(
    items: Sequence[str | None], judged: Mapping[str, float], names: Sequence[str]
) -> list[int]:
    """What a list counts: 1, places, judged places, then scored, sum, squares of each metric."""
    # An item that is shown twice is unjudged at its second place.
    shown = [
        f"\0blank {n}" if item is None or item in items[:n] else item
        for n, item in enumerate(items)
    ]
    depth = max(int(name.split("@")[1]) for name in names)
    row = [1, min(len(shown), depth), sum(item in judged for item in shown[:depth])]
    scores = evaluate({"q": shown}, names, judgements={"q": judged}, relevant_from=2, max_grade=3)
    values = [float(of_metric.values[0]) for of_metric in scores.values()]
    for value in (*values, *(best_case(items, judged, name) for name in names)):
        number = 0.0 if np.isnan(value) else value
        steps = (oracle.steps(number, 10**6), oracle.steps(number * number, 10**6))
        row += [int(not np.isnan(value)), *steps]
    return row


def best_case(items: Sequence[str | None], judged: Mapping[str, float], name: str) -> float:
    """The score of a list if what nobody has judged were as good as the best of the query."""
    ideal = sorted((grade for grade in judged.values() if grade >= 0), reverse=True)
    grades: list[float | None] = []
    for n, item in enumerate(items):
        if item is None or item in items[:n]:
            grades.append(None)
        elif item in judged:
            grades.append(judged[item] if judged[item] >= 0 else None)
        else:
            grades.append(ideal[n] if n < len(ideal) else 0.0)
    if name.startswith("Judged"):
        cut = items[: int(name.split("@")[1])]
        known = [item in judged and item not in items[:n] for n, item in enumerate(cut)]
        return sum(known) / len(known) if known else float("nan")
    lists = Lists.of([grades], pool=[[*judged.values()]])
    metric = parse(name, relevant_from=2, max_grade=3, ideal="pool")
    return min(float(metric.values(lists)[0]), 1.0)
