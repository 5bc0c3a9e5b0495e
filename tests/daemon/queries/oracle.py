"""The table of queries, slowly: the page of the design, line by line."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

Sums = tuple[int, ...]


def added(one: Sums, other: Sums) -> Sums:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def is_none(key: str) -> bool:
    """Of searches without a query, in a segment or at all."""
    return key == "" or key.startswith("\x1f")


@dataclass(frozen=True)
class OracleExample:
    score: int | None
    id: str
    time_ms: int
    items: tuple[str | None, ...]
    gains: tuple[float, ...]
    attributes: tuple[tuple[str, str], ...]
    segment: str

    def order(self) -> tuple[bool, int, int, bytes, int]:
        text = self.id.encode()
        return self.score is None, self.score or 0, crc32(text), text, self.time_ms


@dataclass
class OracleTable:
    columns: int
    kept: int
    min_users: int
    rank: int = 0
    rows: dict[str, tuple[Sums, int, set[int]]] = field(default_factory=dict)
    bound: int = 0
    other: Sums = ()
    examples: int = 0
    first: int = 100
    taken: dict[str, list["OracleExample"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.other = (0,) * self.columns

    def settle(self, pane: Sequence[tuple[str, Sums, int]]) -> None:
        """Lines of (key, sums, user) in any order."""
        sums: dict[str, Sums] = defaultdict(lambda: (0,) * self.columns)
        users: dict[str, set[int]] = defaultdict(set)
        for key, line, user in pane:
            sums[key] = added(sums[key], line)
            if user:
                users[key].add(user)
        for key in sums:
            bound = 0 if is_none(key) else self.bound
            before, missing, who = self.rows.get(key, ((0,) * self.columns, bound, set()))
            self.rows[key] = added(before, sums[key]), missing, who | users[key]
        if sum(not is_none(key) for key in self.rows) > 8 * self.kept:
            self.cut(4 * self.kept)

    def order(self, key: str) -> tuple[bool, int, int, bytes]:
        sums, missing, _ = self.rows[key]
        return not is_none(key), -sums[self.rank] - missing, crc32(key.encode()), key.encode()

    def take(self, pane: Sequence[tuple[str, "OracleExample"]]) -> None:
        """Take the examples of the pane that was just settled, whose searches are in any order."""
        for key in sorted(self.rows, key=self.order)[: self.first]:
            if key and len(self.rows[key][2]) >= self.min_users:
                found = [*self.taken.get(key, ()), *(one for of, one in pane if of == key)]
                self.taken[key] = sorted(found, key=OracleExample.order)[: self.examples]

    def cut(self, count: int) -> None:
        for key in sorted((key for key in self.rows if not is_none(key)), key=self.order)[count:]:
            sums, missing, _ = self.rows.pop(key)
            self.taken.pop(key, None)
            self.other = added(self.other, sums)
            self.bound = max(self.bound, sums[self.rank] + missing)

    def close(self) -> None:
        self.cut(self.kept)

    def found(self) -> Mapping[str, tuple[Sums, int, int]]:
        """Key → (sums, missing, users up to the ceiling)."""
        return {
            key: (sums, missing, min(len(who), self.min_users))
            for key, (sums, missing, who) in self.rows.items()
        }
