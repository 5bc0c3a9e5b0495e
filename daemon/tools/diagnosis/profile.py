"""Which paths JSON records have, how often, and with which values; and what these are: attributes,
times, ids, crawlers.

Values are kept as hashes, so that a profile can say that two paths have the same ones, and show
none.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ...events import instant_ms
from .parts import jmespath_literal, toml

MOST_VALUES: Final = 10_000
"""Distinct values of a path that are counted; later ones are not."""
MOST_PATHS: Final = 2_000
MOST_DEPTH: Final = 8
"""Deeper members are left out, and of an array all elements but the first ones."""
MOST_ELEMENTS: Final = 20
EACH: Final = "[]"
"""Stands for the elements of an array in a path."""
FIRST: Final = " | [0]"
"""Ends the path of what a filter has found."""
KEYS: Final = ("key", "name")
"""Members by which arrays of objects are tables of keys and values."""
ATTRIBUTE: Final = "ce('{}')"
"""The member that stands for an attribute of a CloudEvent, which is also the expression for it."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|ce\('[a-z0-9]+'\)")
"""Other names of members are quoted in JMESPath."""
KINDS: Final = {str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}


@dataclass
class ProfilePath:
    """One path, over all records."""

    path: str
    records: int = 0
    """That have it."""
    kinds: Counter[str] = field(default_factory=Counter)
    """text, number, boolean, null, object or array → values."""
    hashes: set[int] = field(default_factory=set)
    """Of at most MOST_VALUES distinct texts and numbers."""
    lengths: Counter[int] = field(default_factory=Counter)
    """Of arrays."""

    @property
    def is_scalar(self) -> bool:
        """Whether most of its values are text or numbers."""
        scalars = self.kinds["text"] + self.kinds["number"]
        return 2 * scalars > self.kinds.total()


@dataclass
class Profile:
    """The paths of some records."""

    records: int = 0
    paths: dict[str, ProfilePath] = field(default_factory=dict)
    values: list[dict[str, int]] = field(default_factory=list)
    """For each record, path → the hash of its text or number, outside of arrays."""

    def note(self, value: Any) -> None:
        """Take a record in, which is any JSON value."""
        self.records += 1
        seen, own = set[str](), dict[str, int]()
        for path, found in _walk(value, "", 0):
            known = self.paths.get(path)
            if known is None:
                if len(self.paths) >= MOST_PATHS:
                    continue
                known = self.paths[path] = ProfilePath(path)
            if path not in seen:
                seen.add(path)
                known.records += 1
            _note(known, found, own)
        self.values.append(own)


def profiled(values: Iterable[Any]) -> Profile:
    """The profile of some JSON values."""
    profile = Profile()
    for value in values:
        profile.note(value)
    return profile


def hash_of(value: str | int | float) -> int:
    """The hash of a text or a number, by which equal ones are found; of this process only."""
    return hash(str(value))


def _note(known: ProfilePath, found: Any, own: dict[str, int]) -> None:
    kind = KINDS.get(type(found))
    if kind is None:
        kind = "array" if isinstance(found, list) else "object"
        if kind == "array":
            known.lengths[len(found)] += 1
    known.kinds[kind] += 1
    if kind in ("text", "number"):
        hashed = hash_of(found)
        if len(known.hashes) < MOST_VALUES:
            known.hashes.add(hashed)
        if EACH not in known.path:
            own[known.path] = hashed


def _walk(value: Any, path: str, depth: int, suffix: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of all members. `suffix` ends the path of what a filter has found."""
    if path:
        yield path + suffix, value
    if depth >= MOST_DEPTH:
        return
    if isinstance(value, dict):
        for name, member in value.items():
            step = name if _PLAIN.fullmatch(name) else msgspec.json.encode(name).decode()
            yield from _walk(member, f"{path}.{step}" if path else step, depth + 1, suffix)
    elif isinstance(value, list):
        yield from _walk_array(value, path, depth, suffix)


def _walk_array(value: list[Any], path: str, depth: int, suffix: str) -> Iterator[tuple[str, Any]]:
    """All elements; besides, objects as the first of their array, and by the key that they have."""
    for element in value[:MOST_ELEMENTS]:
        yield from _walk(element, path + EACH, depth + 1, suffix)
    if suffix or not value or not isinstance(value[0], dict):
        return
    yield from _walk(value[0], f"{path}[0]", depth + 1)
    for element in value[:MOST_ELEMENTS]:
        for name in KEYS:
            key = element.get(name) if isinstance(element, dict) else None
            if isinstance(key, str) and _PLAIN.fullmatch(key):
                rest = {member: of for member, of in element.items() if member != name}
                yield from _walk(rest, f"{path}[?{name}=='{key}']", depth + 1, FIRST)


def plain_members(value: Any) -> dict[str, Any]:
    """Path → text or number of a record, outside of arrays."""
    return {path: member for path, member in scalars(value) if not isinstance(member, bool)}


def scalars(value: Any) -> Iterator[tuple[str, str | int | float | bool]]:
    """(path, text, number or truth value) of a record, outside of arrays."""
    for path, member in _walk(value, "", 0):
        if "[" not in path and isinstance(member, str | int | float):
            yield path, member


MOST_ATTRIBUTE_VALUES: Final = 50
LEAST_LISTS: Final = 4
"""Lists for each value: with fewer it may be an id."""
LEAST_ATTRIBUTE_PRESENT: Final = 0.5
"""Of the lists must have it."""
MOST_ATTRIBUTES: Final = 6
_OF_KEY: Final = re.compile(rf"\[\?(?:{'|'.join(KEYS)})=='(\w+)'\]\.[\w.]+ \| \[0\]$")
"""The value of a key in an array of keys and values."""


def attributes(lists: Profile, used: Collection[str | None]) -> dict[str, str]:
    """Name → path of the attributes of lists, without paths that are used otherwise."""
    found: dict[str, str] = {}
    for path in lists.paths.values():
        name = _name(path.path)
        if name is not None and path.path not in used and _is_fit(path, lists.records):
            found.setdefault(name, path.path)
    return dict(list(found.items())[:MOST_ATTRIBUTES])


def attribute_line(paths: Mapping[str, str]) -> str:
    """The key as TOML."""
    pairs = ", ".join(f"{name} = {toml(path)}" for name, path in paths.items())
    return f"attributes = {{ {pairs} }}  # texts of few values"


def expressions(table: Any) -> Iterator[str]:
    """All texts in a table of a preset."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, Mapping | list):
        for member in table.values() if isinstance(table, Mapping) else table:
            yield from expressions(member)


def _name(path: str) -> str | None:
    """The name of an attribute at this path; None where it is in an array, or no name."""
    if (of_key := _OF_KEY.search(path)) is not None:
        return of_key[1] if of_key[1].isidentifier() else None
    name = path.rpartition(".")[2]
    return name if EACH not in path and "[" not in path and name.isidentifier() else None


def _is_fit(path: ProfilePath, lists: int) -> bool:
    is_text = path.kinds["text"] == path.kinds.total()
    values = len(path.hashes)
    often = path.records >= max(LEAST_ATTRIBUTE_PRESENT * lists, LEAST_LISTS * values)
    return is_text and often and 2 <= values <= MOST_ATTRIBUTE_VALUES


LEAST_PRESENT: Final = 0.95
EARLIEST_MS: Final = 30 * 86_400_000
"""Before the time of its record."""
LATEST_MS: Final = 3_600_000
"""After it."""
UNITS: Final = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
"""Unit → milliseconds."""
IN_WORDS: Final = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
"""Unit → its name for people."""
MOST_TIMED_RECORDS: Final = 500


@dataclass(frozen=True)
class TimeGuess:
    """The path of a time, and how it is written."""

    path: str
    unit: str | None
    """None: ISO 8601 with a zone."""

    def lines(self) -> Iterator[str]:
        """The keys as TOML."""
        how = "ISO 8601" if self.unit is None else f"in {IN_WORDS[self.unit]}"
        yield f"time = {toml(self.path)}  # {how}; guessed: check"


def guessed_time(values: Sequence[Any], stamps_ms: Sequence[int]) -> TimeGuess | None:
    """The path whose values lie near the times of the records, for the most of them; of several,
    the one that is nearest on the whole."""
    found: dict[tuple[str, str | None], list[float]] = {}
    seen = list(zip(values, stamps_ms, strict=True))[:MOST_TIMED_RECORDS]
    for value, stamp_ms in seen:
        for path, member in plain_members(value).items():
            for unit, at_ms in _instants(member):
                if stamp_ms < 0 or -EARLIEST_MS <= at_ms - stamp_ms <= LATEST_MS:
                    found.setdefault((path, unit), []).append(abs(at_ms - max(stamp_ms, 0)))
    enough = {of: apart for of, apart in found.items() if len(apart) >= LEAST_PRESENT * len(seen)}
    if not enough:
        return None
    path, unit = min(enough, key=lambda of: (sum(enough[of]) / len(enough[of]), of[0]))
    return TimeGuess(path, unit)


def _instants(member: Any) -> Iterator[tuple[str | None, float]]:
    """(unit, ms since the epoch) of all readings of a value that lie from 2001 to 2286."""
    if isinstance(member, str):
        try:
            yield None, float(instant_ms(member))
        except ValueError:
            return
    elif isinstance(member, int | float) and not isinstance(member, bool):
        for unit, factor in UNITS.items():
            if 1e12 <= member * factor < 1e13:
                yield unit, member * factor


LEAST_COMMON: Final = 0.5
"""Of the records of feedback must have the value of some list at the path."""
LEAST_DISTINCT: Final = 0.9
"""Of the lists must have a value of their own."""
LEAST_ID_PRESENT: Final = 0.8
"""Of the records of either kind must have the path."""


@dataclass(frozen=True)
class IdPair:
    """A path of lists and one of feedback with the same values."""

    of_lists: str
    of_feedback: str
    common: float
    """The share of the feedback whose value is that of a list."""
    distinct: float
    """Distinct values by list."""


def id_pairs(lists: Profile, feedback: Profile) -> list[IdPair]:
    """The pairs that may be ids of searches, the best first: most in common, then with the same
    path on both sides, then the most distinct."""
    sides = _candidates(lists, LEAST_DISTINCT), _candidates(feedback, 0.0)
    found = []
    for path, distinct in sides[0].items():
        known = {own[path] for own in lists.values if path in own}
        for other in sides[1]:
            hits = sum(own.get(other) in known for own in feedback.values)
            common = hits / feedback.records
            if common >= LEAST_COMMON:
                found.append(IdPair(path, other, common, distinct))
    return sorted(found, key=_order)


def _order(pair: IdPair) -> tuple[float, bool, int, float]:
    by_place = pair.of_lists.removesuffix(FIRST).count("[0]")  # a key says more than a place
    return -pair.common, pair.of_lists != pair.of_feedback, by_place, -pair.distinct


def _candidates(profile: Profile, least_distinct: float) -> dict[str, float]:
    """Path → distinct values by record, of the paths that may be an id."""
    found = {}
    for path, known in profile.paths.items():
        present = known.records / profile.records
        distinct = len({own[path] for own in profile.values if path in own}) / known.records
        if known.is_scalar and present >= LEAST_ID_PRESENT and distinct >= least_distinct:
            found[path] = distinct
    return found


AGENT: Final = re.compile(r'(?i)(?:^|[."_])(?:user_?agent|agent|ua)"?$')
"""Paths of user agents."""
CRAWLER: Final = "(?i)bot|crawl|spider|headless|preview"
"""What crawlers call themselves, also in the proposed rule."""
CONSENT: Final = re.compile("(?i)consent|opt_?in|allow_?tracking")
"""Paths of flags that are false where somebody does not want to be counted."""
MOST_RECORDS: Final = 20_000


@dataclass(frozen=True)
class CrawlerShare:
    """How many of the records with a path are to be left out."""

    path: str
    records: int
    out: int

    @property
    def of(self) -> float:
        """Their share."""
        return self.out / self.records


def crawlers(values: Iterable[Any]) -> list[CrawlerShare]:
    """By each path of user agents, those with the most of them first."""
    is_crawler = re.compile(CRAWLER).search
    return _shares(
        (path, is_crawler(member) is not None)
        for value in values
        for path, member in scalars(value)
        if isinstance(member, str) and AGENT.search(path)
    )


def refusals(values: Iterable[Any]) -> list[CrawlerShare]:
    """By each path of flags of consent, those with the most records first."""
    return _shares(
        (path, not member)
        for value in values
        for path, member in scalars(value)
        if isinstance(member, bool) and CONSENT.search(path)
    )


def _shares(found: Iterable[tuple[str, bool]]) -> list[CrawlerShare]:
    counts: dict[str, list[int]] = {}
    for path, is_out in found:
        count = counts.setdefault(path, [0, 0])
        count[0] += 1
        count[1] += is_out
    shares = [CrawlerShare(path, records, out) for path, (records, out) in counts.items()]
    return sorted(shares, key=lambda share: -share.records)


def drop_lines(share: CrawlerShare) -> tuple[str, ...]:
    """The rule that leaves crawlers out, as TOML."""
    where = f"regex({share.path}, {jmespath_literal(CRAWLER)})"
    words = f"{100 * share.of:.1f} % of the records with a user agent"
    return (
        "[[sources.drop]]",
        'reason = "bot"  # counted under it',
        f"where = {toml(where)}  # {words}",
    )
