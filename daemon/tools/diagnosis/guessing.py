"""Tables for records that no preset reads, guessed from what they have in common.

A list is a kind of record with an array of ids that the records of another kind name one of, and an
id that both have. The two may stand in one topic or in several. Everything that is guessed is said
to be, and only proposed where it joins.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

from .guessed_tables import Guess, GuessedFeedbackTable, Items, ListTable, guessed_rank
from .parts import jmespath_literal
from .profile import (
    AGENT,
    EACH,
    IdPair,
    Profile,
    attributes,
    guessed_time,
    hash_of,
    id_pairs,
    plain_members,
    profiled,
)

MOST_KINDS: Final = 50
"""A path with more distinct texts is not the type of a record."""
MOST_SPLITS: Final = 4
"""Of a topic are tried."""
LEAST_PRESENT: Final = 0.9
"""Of the records must have a path that is the type of a record."""
LEAST_COMMON: Final = 0.5
"""Of the items that are named must stand in lists."""
SEPARATORS: Final = (",", "|", ";")
"""Of lists that are a text. No blank: any sentence has some."""
USER: Final = re.compile(r"(?i)user|visitor|client|customer|anonymous|session|member|cookie|^uid$")
"""Names of members that mean a person."""
MOST_BY_USER: Final = 50
"""Searches of a person in a sample, on average: more is no person, but an attribute."""
LEAST_WITH_USER: Final = 0.8
WORDS: Final[Mapping[str, str]] = {
    "purchase": r"purchase|order|checkout|bought|buy|transaction",
    "add_to_cart": r"cart|basket",
    "click": r"click|select|open|view_item|tap",
}
"""Kind of feedback → names of events that mean it, the first that fits."""


@dataclass(frozen=True)
class GuessedRecords:
    """JSON objects of one topic, and the times that Kafka has of them (-1: none)."""

    values: Sequence[Any]
    stamps_ms: Sequence[int]

    def part(self, places: Sequence[int]) -> "GuessedRecords":
        """Those at these places."""
        return GuessedRecords([self.values[n] for n in places], [self.stamps_ms[n] for n in places])

    @cached_property
    def profile(self) -> Profile:
        """The paths that they have."""
        return profiled(self.values)


@dataclass(frozen=True)
class Reactions:
    """Records whose names mean feedback."""

    path: str | None
    """Of the names; None: that of the topic is the only one."""
    groups: Mapping[str, GuessedRecords]
    """Name → its records."""
    where: tuple[str, str] | None = None
    """The text at a path that they all have; None: the names say enough."""


@dataclass(frozen=True)
class Split:
    """The records of a topic, grouped by the text at a path."""

    topic: str
    path: str | None
    """None: they are all of one kind."""
    groups: Mapping[str, GuessedRecords]
    """Text at the path, or the name of the topic → its records."""

    @cached_property
    def reactions(self) -> Sequence[Reactions]:
        """The groups whose names mean feedback; without any, those in which the texts at another
        path do."""
        by_name = {name: records for name, records in self.groups.items() if _kind(name)}
        if by_name:
            return [Reactions(self.path, by_name)]
        return [] if self.path is None else [*self._by_another_path(self.path)]

    def _by_another_path(self, path: str) -> Iterator[Reactions]:
        for name, records in self.groups.items():
            for other in _type_paths(records.profile, least=1):
                groups = _split(self.topic, other, records).groups
                named = {text: of for text, of in groups.items() if _kind(text)}
                if named:
                    yield Reactions(other, named, (path, name))


def guess_tables(topics: Mapping[str, GuessedRecords]) -> dict[str, Guess]:
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


def _splits(topic: str, records: GuessedRecords) -> list[Split]:
    """By each path of few texts that nearly all records have, those with the fewest first; at last
    all records as one kind."""
    splits = [_split(topic, path, records) for path in _type_paths(records.profile, least=2)]
    named = [split for split in splits if split.reactions][:MOST_SPLITS]
    return [*named, Split(topic, None, {topic: records})]


def _type_paths(profile: Profile, least: int) -> list[str]:
    """The paths that nearly all records have, with texts, at least so many and few distinct ones;
    those with the fewest first."""
    found = [
        (len(path.hashes), path.path)
        for path in profile.paths.values()
        if EACH not in path.path
        and path.records >= LEAST_PRESENT * profile.records
        and path.kinds["text"] == path.kinds.total()
        and least <= len(path.hashes) <= MOST_KINDS
    ]
    return [path for _, path in sorted(found)]


def _split(topic: str, path: str, records: GuessedRecords) -> Split:
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
    lists, tables = split.groups[name], dict[str, GuessedFeedbackTable]()
    best: tuple[Items, IdPair] | None = None
    for topic, options in splits.items():
        candidates = options if topic != split.topic else [split]
        found = (
            _on_lists(lists, one, name if option is split else None)
            for option in candidates
            for one in option.reactions
        )
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


def _on_lists(
    lists: GuessedRecords, reactions: Reactions, besides: str | None
) -> tuple[Items, IdPair, GuessedFeedbackTable] | None:
    """Feedback of a topic on these lists, but for the group that they are."""
    if reactions.where is not None and reactions.where[1] == besides:
        return None
    groups = {name: of for name, of in reactions.groups.items() if name != besides}
    items = max(_items(lists, groups), key=lambda one: one.common, default=None)
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
    pair = pairs[0]
    table = GuessedFeedbackTable(
        path=reactions.path,
        kinds=kinds,
        id=pair.of_feedback,
        time=time,
        item=items.of_feedback,
        rank=guessed_rank(lists.values, feedback.values, pair, items),
        where=reactions.where,
    )
    return items, pair, table


def _together(groups: Iterable[GuessedRecords]) -> GuessedRecords:
    parts = list(groups)
    values = [value for part in parts for value in part.values]
    return GuessedRecords(values, [stamp for part in parts for stamp in part.stamps_ms])


def _list_table(split: Split, name: str, items: Items, id_path: str) -> ListTable | None:
    lists = split.groups[name]
    time = guessed_time(lists.values, lists.stamps_ms)
    if time is None:
        return None
    user = _user(lists.profile, {split.path, id_path, time.path}, items.array)
    named = attributes(lists.profile, {split.path, id_path, time.path, user})
    where = None if split.path is None else (split.path, name)
    return ListTable(where, id_path, time, items, user, named)


def _kind(name: str) -> str | None:
    return next((kind for kind, words in WORDS.items() if re.search(words, name, re.I)), None)


def _items(lists: GuessedRecords, others: Mapping[str, GuessedRecords]) -> Iterator[Items]:
    """The arrays of ids, or texts of them, of which records of another kind name some."""
    named: dict[str, set[int]] = defaultdict(set)
    for of in others.values():
        for path in of.profile.paths.values():
            if EACH not in path.path and path.is_scalar:
                named[path.path] |= path.hashes
    for array, member, hashes in chain(_arrays(lists.profile), _texts_of_ids(lists)):
        for other, ids in named.items():
            common = len(ids & hashes) / len(ids) if len(ids) > 1 else 0.0
            if common >= LEAST_COMMON:
                yield Items(array, member, other, common)


def _arrays(lists: Profile) -> Iterator[tuple[str, str | None, set[int]]]:
    """(path, member of an element, hashes of the ids) of all arrays."""
    for path in lists.paths.values():
        array, mark, member = path.path.partition(EACH)
        if mark and EACH not in member and path.is_scalar:
            if max(lists.paths[array].lengths, default=0) >= 2:
                yield array, member.removeprefix(".") or None, path.hashes


def _texts_of_ids(lists: GuessedRecords) -> Iterator[tuple[str, None, set[int]]]:
    """The same for texts that are lists of ids with a separator."""
    texts: dict[str, list[str]] = defaultdict(list)
    for value in lists.values:
        for path, member in plain_members(value).items():
            if isinstance(member, str):
                texts[path].append(member)
    for path, values in texts.items():
        for separator in SEPARATORS:
            if sum(separator in text for text in values) >= LEAST_COMMON * len(lists.values):
                hashes = {hash_of(part) for text in values for part in text.split(separator)}
                yield f"split({path}, {jmespath_literal(separator)})", None, hashes


def _user(lists: Profile, used: set[str | None], items: str) -> str | None:
    """The path of who searched: of those whose names mean a person, the one whose values come back
    the most. What lies in the array of items is of an item."""
    found = [
        (path.records / len(path.hashes), path.path)
        for path in lists.paths.values()
        if USER.search(path.path.rpartition(".")[2])
        and not AGENT.search(path.path)
        and EACH not in path.path
        and not path.path.startswith(f"{items}[")
        and path.is_scalar
        and path.records >= LEAST_WITH_USER * lists.records
    ]
    rightful = [one for one in found if one[0] < MOST_BY_USER and one[1] not in used]
    return max(rightful)[1] if rightful else None
