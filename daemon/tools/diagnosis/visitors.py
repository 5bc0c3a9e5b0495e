"""How the searches of a sample belong together: by visitor, by the keys of its partitions, and how
the data of its records is reached.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from relevanced.metrics import Floats, Integers

from ...events import Impression, InvalidField, LogRecord
from ...kafka import PARTITIONERS
from ...lane import Lane, new_column
from ...mapping import CLOUDEVENTS, unwrapped
from ...schemas import Bodies, Framing, SchemaBook
from .looked import Looked, Seen
from .parts import MOST_RECORDS, json_value, toml
from .profile import ATTRIBUTE, scalars

LEAST_SEARCHES: Final = 200
"""Scored searches with a visitor, below which nothing is known."""
LEAST_REPEATED: Final = 50
"""Visitors with several of them, likewise."""


def design_effect(looked: Looked, lane: Lane, metric_index: int) -> float | None:
    """The design effect of a metric's mean over the impressions that are open in the lane, to which
    the sample was applied; None where too few of them have a visitor who comes back."""
    users = {one.impression_id: one.user_id for one in looked.impressions}
    values, is_scored = _scores(lane, metric_index)
    ids = (lane.open.ids[n].decode() for n in range(len(values)))
    named = [users.get(text) for text in ids]
    at = [n for n, user in enumerate(named) if user is not None and is_scored[n]]
    if len(at) < LEAST_SEARCHES:
        return None
    _, codes = np.unique([named[n] for n in at], return_inverse=True)
    if np.count_nonzero(np.bincount(codes) > 1) < LEAST_REPEATED:
        return None
    return effect_of_visitors(values[at], codes)


def effect_of_visitors(values: Floats, visitors: Integers) -> float | None:
    """How much less the values, (n,), say of their mean than as many independent ones, as one
    visitor's searches resemble one another; visitors from 0, (n,). None where all are equal. With
    the deviations d from the mean:

        effect = sum over visitors of (sum of d)^2  /  sum of d^2

    which is 1 where searches are independent (Kish's design effect, as cluster-robust standard
    errors estimate it). It is that of the sample: in a whole day the same visitors come back, so
    that it may be larger.
    """
    deviations = values - values.mean()
    whole = float((deviations**2).sum())
    by_visitor = np.bincount(visitors, weights=deviations)
    return float((by_visitor**2).sum()) / whole if whole > 0 else None


def _scores(lane: Lane, metric_index: int) -> tuple[Floats, Integers]:
    """(value in units of the stored sums, whether it is defined) of each impression of the columns,
    (n,) each."""
    rows = lane.states.rows()[new_column(lane.open.states)]
    scored = lane.plan.metric_column(metric_index)
    return rows[:, scored + 1].astype(np.float64), rows[:, scored]


LEAST_KEYS: Final = 10
"""With fewer distinct keys nothing is said."""
LEAST_SHARE: Final = 0.99
MORE_PARTITIONS: Final = 16
"""A topic may have so many partitions beyond the last one that was seen."""


@dataclass(frozen=True)
class Keys:
    """The keys of a topic."""

    keyed: float
    """The share of records with a key."""
    distinct: int
    partitioner: str | None = None
    """None: no known one, or unknown."""
    partitions: int = 0
    """With which the partitioner places the keys where they are."""


def keys_of(records: Sequence[LogRecord]) -> Keys:
    """The keys of the records of one topic, which must be some."""
    placed = {record.key: record.partition for record in records if record.key is not None}
    keyed = sum(record.key is not None for record in records) / len(records)
    seen = 1 + max(record.partition for record in records)
    if len(placed) < LEAST_KEYS or seen == 1:
        return Keys(keyed, len(placed))
    best = max(
        (
            (_share(placed, hashed, count), -count, name)
            for name, of in PARTITIONERS.items()
            for hashed in ({key: of(key) for key in placed},)
            for count in range(seen, seen + MORE_PARTITIONS + 1)
        ),
    )
    share, count, name = best
    return (
        Keys(keyed, len(placed), name, -count) if share >= LEAST_SHARE else Keys(keyed, len(placed))
    )


def _share(placed: Mapping[bytes, int], hashed: Mapping[bytes, int], count: int) -> float:
    return sum(hashed[key] % count == at for key, at in placed.items()) / len(placed)


def meaning(seen: Sequence[Seen]) -> str | None:
    """What the keys of these records are: the id of the search, the visitor, or None."""
    keyed = [one for one in seen if one.key is not None]
    if not keyed:
        return None
    ids = sum(one.key == one.event.impression_id.encode() for one in keyed)
    if ids >= LEAST_SHARE * len(keyed):
        return "the id of the search"
    lists = [(one.key, e) for one in keyed if isinstance(e := one.event, Impression)]
    users = sum(e.user_id is not None and key == e.user_id.encode() for key, e in lists)
    return "the user" if lists and users >= LEAST_SHARE * len(lists) else None


LEAST_OPENING_SHARE: Final = 0.9
"""Of the records must be reached in one way for it to be proposed."""
TRIED_RECORDS: Final = 500
BODIES: Final = Bodies(Framing(), SchemaBook())
"""Of records as JSON."""
_NOT_ASKED_FOR: Final = ("specversion", "id", "datacontenttype", "dataschema")
"""Attributes of CloudEvents that say nothing of a search."""


@dataclass(frozen=True)
class Opening:
    """How the data is reached."""

    envelope: str | None = None
    text: str | None = None
    """The path of a string with JSON in it."""

    def lines(self) -> Iterator[str]:
        """The keys as TOML, with a comment on each line."""
        if self.envelope is not None:
            yield f"envelope = {toml(self.envelope)}  # expressions see the data"
        if self.text is not None:
            yield f"each = {toml(f'parse_json({self.text})')}  # JSON in a string"

    def value(self, record: LogRecord) -> Any:
        """The data of a record; None where there is none. An attribute of a CloudEvent is a member
        whose name is the expression that asks for it."""
        if self.envelope is not None:
            return _cloud_data(record)
        value = json_value(record.value)
        return value if self.text is None else _parsed(value, self.text)


def opening_of(records: Sequence[LogRecord]) -> Opening:
    """The way by which nearly all of the first records have an object."""
    tried = records[:TRIED_RECORDS]
    least = LEAST_OPENING_SHARE * max(len(tried), 1)
    if sum(_cloud_data(record) is not None for record in tried) >= least:
        return Opening(envelope=CLOUDEVENTS)
    texts = Counter(path for record in tried for path in _json_texts(json_value(record.value)))
    # A string in a part of the records is a detail of theirs, not their data.
    path, count = texts.most_common(1)[0] if texts else (None, 0)
    return Opening(text=path) if count >= least else Opening()


def opened(records: Sequence[LogRecord], opening: Opening) -> Iterator[tuple[Any, int]]:
    """(data, time of the record) of those of the first records whose data is an object."""
    read = ((opening.value(record), record.timestamp) for record in records[:MOST_RECORDS])
    return ((value, stamp_ms) for value, stamp_ms in read if isinstance(value, dict))


def _cloud_data(record: LogRecord) -> Any:
    if record.value is None:
        return None
    try:
        around = unwrapped(CLOUDEVENTS, record.value, BODIES, headers=record.headers)
    except InvalidField:
        return None
    if not isinstance(around.root, dict):
        return None
    attributes = {
        ATTRIBUTE.format(name): value
        for name, value in around.attributes.items()
        if name not in _NOT_ASKED_FOR and value is not None
    }
    return attributes | around.root


def _json_texts(value: Any) -> Iterator[str]:
    """The paths of strings that have a JSON object in them."""
    for path, member in scalars(value):
        if isinstance(member, str) and member.startswith("{"):
            if isinstance(json_value(member.encode(errors="replace")), dict):
                yield path


def _parsed(value: Any, path: str) -> Any:
    found = dict(scalars(value)).get(path) if isinstance(value, dict) else None
    return json_value(found.encode(errors="replace")) if isinstance(found, str) else None
