"""Tables for records that no preset reads, guessed from what they have in common.

A list is a kind of record with an array of ids that the records of another kind name one of, and an
id that both have. The two may stand in one topic or in several. Everything that is guessed is said
to be, and only proposed where it joins. Pure.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from .guessed_tables import FeedbackTable, Guess, Items, ListTable
from .ids import IdPair, id_pairs
from .profile import EACH, Profile, plain_members, profiled
from .times import guessed_time

MOST_KINDS: Final = 50
"""A path with more texts does not tell kinds of records from one another."""
MOST_SPLITS: Final = 4
"""Of a topic are tried."""
LEAST_PRESENT: Final = 0.9
"""Of the records must have what tells kinds of records from one another."""
LEAST_COMMON: Final = 0.5
"""Of the items that are named must stand in lists."""
MOST_VALUES: Final = 50
MOST_ATTRIBUTES: Final = 6
WORDS: Final[Mapping[str, str]] = {
    "purchase": r"purchase|order|checkout|bought|buy|transaction",
    "add_to_cart": r"cart|basket",
    "click": r"click|select|open|view_item|tap",
}
"""Kind of feedback → names of events that mean it, the first that fits."""


@dataclass(frozen=True)
class Records:
    """JSON objects of one topic, and the times that Kafka has of them (-1: none)."""

    values: Sequence[Any]
    stamps_ms: Sequence[int]

    def part(self, places: Sequence[int]) -> "Records":
        """Those at these places."""
        return Records([self.values[n] for n in places], [self.stamps_ms[n] for n in places])

    @cached_property
    def profile(self) -> Profile:
        """The paths that they have."""
        return profiled(self.values)


@dataclass(frozen=True)
class Split:
    """The records of a topic, told from one another by the text at a path."""

    topic: str
    path: str | None
    """None: they are all of one kind."""
    groups: Mapping[str, Records]
    """Text at the path, or the name of the topic → its records."""

    @property
    def reactions(self) -> Mapping[str, Records]:
        """The groups whose names mean feedback."""
        return {name: records for name, records in self.groups.items() if _kind(name)}


def guessed(topics: Mapping[str, Records]) -> dict[str, Guess]:
    """Guess the tables of the records of some topics, by topic; empty where they do not look like
    lists and feedback. Of all records that could be lists those are, of whose items feedback names
    the most."""
    splits = {topic: _splits(topic, records) for topic, records in topics.items()}
    best, score = dict[str, Guess](), 0.0
    for split in (one for options in splits.values() for one in options):
        for name in split.groups:
            common, found = _with_lists(split, name, splits)
            if common > score:
                best, score = found, common
    return best


def _splits(topic: str, records: Records) -> list[Split]:
    """By each path of few texts that nearly all records have, those with the fewest first; at last
    all records as one kind."""
    profile = records.profile
    found = [
        (len(path.hashes), path.path)
        for path in profile.paths.values()
        if EACH not in path.path
        and path.records >= LEAST_PRESENT * profile.records
        and path.kinds["text"] == path.kinds.total()
        and 2 <= len(path.hashes) <= MOST_KINDS
    ]
    splits = [_split(topic, path, records) for _, path in sorted(found)]
    telling = [split for split in splits if split.reactions][:MOST_SPLITS]
    return [*telling, Split(topic, None, {topic: records})]


def _split(topic: str, path: str, records: Records) -> Split:
    places: dict[str, list[int]] = defaultdict(list)
    for place, value in enumerate(records.values):
        kind = plain_members(value).get(path)
        if isinstance(kind, str):
            places[kind].append(place)
    return Split(topic, path, {kind: records.part(part) for kind, part in places.items()})


def _with_lists(
    split: Split, name: str, splits: Mapping[str, Sequence[Split]]
) -> tuple[float, dict[str, Guess]]:
    """(the share of named items that stand in lists, the tables), where this group are lists."""
    lists, tables = split.groups[name], dict[str, FeedbackTable]()
    best: tuple[Items, IdPair] | None = None
    for topic, options in splits.items():
        candidates = options if topic != split.topic else [split]
        found = (_reactions(lists, one, name if one is split else None) for one in candidates)
        known = [one for one in found if one is not None]
        if not known:
            continue
        items, pair, tables[topic] = max(known, key=lambda one: one[0].common)
        if best is None or items.common > best[0].common:
            best = items, pair
    table = None if best is None else _list_table(split, name, best[0], best[1].of_lists)
    if best is None or table is None:
        return 0.0, {}
    named = {split.topic, *tables}
    guesses = {t: Guess(table if t == split.topic else None, tables.get(t)) for t in named}
    return best[0].common, guesses


def _reactions(
    lists: Records, split: Split, besides: str | None
) -> tuple[Items, IdPair, FeedbackTable] | None:
    """Feedback of a topic on these lists, but for the group that they are."""
    groups = {name: of for name, of in split.reactions.items() if name != besides}
    items = max(_items(lists.profile, groups), key=lambda one: one.common, default=None)
    if items is None:
        return None
    groups = {name: of for name, of in groups.items() if items.of_feedback in of.profile.paths}
    feedback = _together(groups.values())
    pairs = [
        p for p in id_pairs(lists.profile, feedback.profile) if p.of_feedback != items.of_feedback
    ]
    time = guessed_time(feedback.values, feedback.stamps_ms)
    if not pairs or time is None:
        return None
    kinds = {name: str(_kind(name)) for name in groups}
    table = FeedbackTable(split.path, kinds, pairs[0].of_feedback, time, items.of_feedback)
    return items, pairs[0], table


def _together(groups: Iterable[Records]) -> Records:
    parts = list(groups)
    values = [value for part in parts for value in part.values]
    return Records(values, [stamp for part in parts for stamp in part.stamps_ms])


def _list_table(split: Split, name: str, items: Items, id_path: str) -> ListTable | None:
    lists = split.groups[name]
    time = guessed_time(lists.values, lists.stamps_ms)
    if time is None:
        return None
    attributes = _attributes(lists.profile, {split.path, id_path, time.path})
    where = None if split.path is None else (split.path, name)
    return ListTable(where, id_path, time, items, attributes)


def _kind(name: str) -> str | None:
    return next((kind for kind, words in WORDS.items() if re.search(words, name, re.I)), None)


def _items(lists: Profile, others: Mapping[str, Records]) -> Iterator[Items]:
    """The arrays of ids, of which records of another kind name some."""
    named: dict[str, set[int]] = defaultdict(set)
    for of in others.values():
        for path in of.profile.paths.values():
            if EACH not in path.path and path.is_scalar:
                named[path.path] |= path.hashes
    for path in lists.paths.values():
        array, mark, member = path.path.partition(EACH)
        if not mark or EACH in member or not path.is_scalar:
            continue
        if max(lists.paths[array].lengths, default=0) < 2:
            continue
        for other, hashes in named.items():
            common = len(hashes & path.hashes) / len(hashes) if len(hashes) > 1 else 0.0
            if common >= LEAST_COMMON:
                yield Items(array, member.removeprefix(".") or None, other, common)


def _attributes(lists: Profile, used: set[str | None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in lists.paths.values():
        name = path.path.rpartition(".")[2]
        fits = 2 <= len(path.hashes) <= MOST_VALUES and path.kinds["text"] == path.kinds.total()
        often = path.records >= 0.5 * lists.records
        plain = EACH not in path.path and "[" not in path.path and name.isidentifier()
        if fits and often and plain and path.path not in used and name not in found:
            found[name] = path.path
    return dict(list(found.items())[:MOST_ATTRIBUTES])
