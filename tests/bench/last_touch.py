"""What last touch joins in place of ids, on logs that have them.

    make bench-touch ARGS=SHARED

prints the rows of the table in deploy/guide/events.md. Public logs: the real click-through of the
demo shop Chorus and the generated traffic beside it (o19s/chorus-opensearch-edition, UBI), and
TianGong-ST (searches of sessions of Sogou, which have no times: here one each half minute, and
clicks as long after their list as in simulated traffic).
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from relevanced.daemon.config import load
from relevanced.daemon.recompute.files import NO_STAMP, RecordedRecord
from relevanced.daemon.tools.diagnosis import ComparedJoins, compared_joins
from relevanced.daemon.tools.traffic import Traffic, generate_events

START_MS: Final = 1_795_176_000_000
SHOWN: Final = '[events]\nformat = "ubi"\nubi_lists = "shown"\n'
SIMULATED_S: Final = 3_600
BETWEEN_MS: Final = 30_000
METRICS: Final = ("RR@10", "nDCG@10")


def ubi(shared: Path, application: str) -> Iterator[Any]:
    """The records of one application."""
    path = shared / "data" / "ubi-chorus" / "ubi_queries_events.ndjson"
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record.get("application") == application:
            yield record


def tiangong(shared: Path) -> Iterator[Any]:
    """Native events of the sessions of the training file."""
    rng, visits = random.Random(1), dict[str, int]()
    path = shared / "data" / "tiangong-st-demo" / "train_per_query_quid.txt"
    for number, line in enumerate(path.read_text().splitlines()):
        session, _, listed, _, clicks, *_ = line.split("\t")
        items, at_ms = json.loads(listed), START_MS + visits.get(session, 0) * BETWEEN_MS
        visits[session] = visits.get(session, 0) + 1
        event = {"impression_id": f"q{number}", "user_id": session, "timestamp": at_ms}
        yield {"type": "impression", "items": items, **event}
        for item, clicked in zip(items, json.loads(clicks), strict=True):
            if clicked:
                after_ms = 1_000 + int(1_000 * min(rng.expovariate(1 / 12), 59))
                reaction = {"type": "feedback", "kind": "click", "item": item}
                yield {**event, **reaction, "timestamp": at_ms + after_ms}


def simulated() -> Iterator[Any]:
    """Native events of simulated traffic."""
    for _, event in generate_events(Traffic(seed=1, rate=20), START_MS):
        if event["timestamp"] > START_MS + 1_000 * SIMULATED_S:
            return
        yield event


def compared(records: Iterator[Any], config: str) -> ComparedJoins:
    """What both ways of joining come to."""
    values = [json.dumps(record).encode() for record in records]
    topic = "search-events"
    logged = [
        RecordedRecord(topic, 0, at, NO_STAMP, None, value, ()) for at, value in enumerate(values)
    ]
    return compared_joins({topic: logged}, load(config, {}, "bench"))


def public(shared: Path) -> dict[str, ComparedJoins]:
    """Public log → what was found."""
    return {
        "Chorus": compared(ubi(shared, "Chorus"), SHOWN),
        "ESCI sample of UBI": compared(ubi(shared, "esci_ubi_sample"), SHOWN),
        "TianGong-ST": compared(tiangong(shared), ""),
    }


def row(name: str, found: ComparedJoins) -> str:
    """A row of the table."""
    whole = max(found.by_id, 1)
    shares = [f"{100 * count / whole:.1f} %" for count in (found.same, found.others)]
    changes = [f"{100 * found.changes.get(metric, 0):+.1f} %" for metric in METRICS]
    return f"| {' | '.join([name, f'{found.by_id:,}', *shares, f'{found.more:,}', *changes])} |"


if __name__ == "__main__":
    of_all = public(Path(sys.argv[1])) | {"simulated": compared(simulated(), "")}
    print("\n".join(row(name, found) for name, found in of_all.items()))
