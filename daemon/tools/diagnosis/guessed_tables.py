"""Guessed tables of one topic, how they are written, and the rank that feedback states."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...mapping import expression
from .parts import find_value, jmespath_literal, toml
from .profile import IdPair, TimeGuess, attribute_line, plain_members

CHECK: Final = "guessed: check"


@dataclass(frozen=True)
class Items:
    """Where the items of lists stand, and where feedback names one of them."""

    array: str
    member: str | None
    """Of an element; None: the element is the item."""
    of_feedback: str
    common: float
    """The share of the items that feedback names which stand in lists."""


@dataclass(frozen=True)
class RankGuess:
    """The path of the rank that feedback states, and where ranks begin."""

    path: str
    base: int
    share: float
    """Of the feedback with an item of its list has this rank."""

    def lines(self) -> Iterator[str]:
        """The keys as TOML."""
        words = f"{100 * self.share:.1f} % are the item's own rank; guessed: check"
        yield f"rank = {toml(self.path)}  # {words}"
        yield f"rank_base = {self.base}  # ranks begin there"


@dataclass(frozen=True)
class ListTable:
    """Which records are lists, and where they have what."""

    where: tuple[str, str] | None
    """The text at a path; None: all of the topic."""
    id: str
    time: TimeGuess
    items: Items
    user: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Name → path."""

    def lines(self) -> Iterator[str]:
        """The table as TOML, with a comment on each line."""
        yield "[sources.impression]"
        if self.where is not None:
            yield _where(*self.where)
        yield f"id = {toml(self.id)}  # {CHECK}"
        yield from self.time.lines()
        yield f"items = {toml(self.items.array)}  # {CHECK}"
        if self.items.member is not None:
            yield f"item = {toml(self.items.member)}  # {CHECK}"
        if self.user is not None:
            yield f"user = {toml(self.user)}  # guessed by its name: check"
        if self.attributes:
            yield attribute_line(self.attributes)


@dataclass(frozen=True)
class GuessedFeedbackTable:
    """Which records are feedback, and where they have what."""

    path: str | None
    """Whose text is the kind; None: all of the topic are of one kind."""
    kinds: Mapping[str, str]
    """Text at the path, or the name of the topic → kind."""
    id: str
    time: TimeGuess
    item: str
    rank: RankGuess | None = None
    where: tuple[str, str] | None = None
    """The text at a path that it has beside its kind; None: the kinds say enough."""

    def lines(self) -> Iterator[str]:
        """The table as TOML, with a comment on each line."""
        yield "[sources.feedback]"
        if self.where is not None:
            yield _where(*self.where)
        if self.path is None:
            kind = next(iter(self.kinds.values()))
            literal = toml(jmespath_literal(kind))
            yield f"kind = {literal}  # guessed by the name of the topic: check"
        else:
            named = ", ".join(f"{toml(text)} = {toml(kind)}" for text, kind in self.kinds.items())
            yield f"kind = {toml(self.path)}  # {CHECK}"
            yield f"kinds = {{ {named} }}  # guessed by their names: check"
        yield f"id = {toml(self.id)}  # {CHECK}"
        yield from self.time.lines()
        yield f"item = {toml(self.item)}  # {CHECK}"
        if self.rank is not None:
            yield from self.rank.lines()


@dataclass(frozen=True)
class Guess:
    """The tables of one topic: lists, feedback, or both."""

    lists: ListTable | None
    feedback: GuessedFeedbackTable | None

    def lines(self) -> Iterator[str]:
        """The tables as TOML, with a comment on each line."""
        tables = [table for table in (self.lists, self.feedback) if table is not None]
        for unit in ("us", "ns"):
            if unit in {table.time.unit for table in tables}:
                yield f'time_format = "{unit}"  # {CHECK}'
        for table in tables:
            yield from table.lines()


def _where(path: str, text: str) -> str:
    return f"where = {toml(f'{path} == {jmespath_literal(text)}')}  # {CHECK}"


BASES: Final = (1, 0)
LEAST_SHARE: Final = 0.8
"""Of the feedback must state the rank of its item."""
LEAST_RANKS: Final = 2
"""Distinct ranks, below which a number may be anything."""
LEAST_SEEN: Final = 30


def guessed_rank(
    lists: Sequence[Any], feedback: Sequence[Any], pair: IdPair, items: Items
) -> RankGuess | None:
    """The path whose number is the rank of the item in its list, for most of the feedback; None
    where there is none."""
    shown = _items_by_id(lists, pair, items)
    id_path = expression(pair.of_feedback)
    seen, states = Counter[str](), defaultdict[tuple[str, int], list[int]](list)
    for value in feedback:
        members = plain_members(value)
        found = shown.get(str(find_value(id_path, value)), [])
        item = str(members.get(items.of_feedback))
        if item not in found:
            continue
        rank0 = found.index(item)
        for path, number in members.items():
            if type(number) is int:
                seen[path] += 1
                for base in BASES:
                    if number == rank0 + base:
                        states[path, base].append(rank0)
    return _best(seen, states)


def _best(seen: Counter[str], states: dict[tuple[str, int], list[int]]) -> RankGuess | None:
    found = [
        RankGuess(path, base, len(ranks) / seen[path])
        for (path, base), ranks in states.items()
        if seen[path] >= LEAST_SEEN and len(set(ranks)) >= LEAST_RANKS
    ]
    best = max(found, key=lambda one: one.share, default=None)
    return best if best is not None and best.share >= LEAST_SHARE else None


def _items_by_id(lists: Sequence[Any], pair: IdPair, items: Items) -> dict[str, list[str]]:
    """Id of a list → its items."""
    id_path = expression(pair.of_lists)
    member = f".{items.member}" if items.member else ""
    array = expression(f"{items.array}[]{member}")
    found = dict[str, list[str]]()
    for value in lists:
        shown = find_value(array, value)
        if isinstance(shown, list):
            found.setdefault(str(find_value(id_path, value)), [*map(str, shown)])
    return found
