"""What the oracle says of items that were shown for judged queries and are not judged: list by
list, merged by the slow table."""

from collections.abc import Callable, Mapping, Sequence

from tests import oracle
from tests.daemon.queries.oracle import OracleTable
from tests.oracle import Accepted, Impression, LaneResult, OracleConfig, Record
from tests.oracle_judged import Grades


def tables(
    of_topic: Mapping[str, Sequence[Record]],
    config: OracleConfig,
    files: Sequence[tuple[int, Grades]],
    query_of: Callable[[Impression], str],
    depth: int,
    table: tuple[int, int],
    settled_before: int,
) -> dict[int, OracleTable]:
    """Start of an hour in ms → its table, of the panes that start before `settled_before`. `files`
    are (start in ms, query → item → grade); `table` is (kept rows, least users)."""
    panes: dict[int, list[tuple[str, tuple[int, ...], int]]] = {}
    base = oracle.base_pane_ms(config)
    for shown in accepted(of_topic, config):
        assert shown.event is not None
        started = [grades for start, grades in files if start <= shown.time_ms]
        judged = started[-1].get(query_of(shown.event)) if started else None
        pane = shown.time_ms // base * base
        if judged is None or pane >= settled_before:
            continue
        user = int(shown.event.user_id[1:]) + 1 if shown.event.user_id else 0
        for item in set(shown.items[:depth]) - set(judged) - {None}:
            line = (f"{query_of(shown.event)}\x1f{item}", (1,), user)
            panes.setdefault(pane, []).append(line)
    found: dict[int, OracleTable] = {}
    for pane, lines in sorted(panes.items()):
        hour = oracle.hour_start_s(pane, config) * 1000
        found.setdefault(hour, OracleTable(1, *table)).settle(lines)
    for hour, of_hour in found.items():
        if hour + config.hour_s * 1000 <= settled_before:
            of_hour.close()
    return found


def accepted(of_topic: Mapping[str, Sequence[Record]], config: OracleConfig) -> list[Accepted]:
    """All impressions that were accepted, with their lists as the log leaves them."""
    result = LaneResult(watermarks=dict.fromkeys(of_topic))
    found: list[Accepted] = []
    for records in of_topic.values():
        by_id: dict[str, list[Accepted]] = {}
        for read in oracle.read_partition(records, config, result, ""):
            event = read.event
            if not isinstance(event, Impression):
                continue
            of_id = by_id.setdefault(event.id, [])
            if oracle.decide_impression(event, read.watermark, of_id, config) == "accepted":
                of_id[-1].event = event
        found += [one for of_id in by_id.values() for one in of_id]
    return found
