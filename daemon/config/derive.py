"""`[[derive]]`: reads, checks and writes the attributes that are derived from the query. Pure.

Derived attributes shape columns: under another derivation of one, what groups by it begins anew.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from ..events.types import MAX_TEXT_BYTES
from ..experiments.specs import IMPRESSION, USER
from ..mapping.patterns import literals, most_steps, pattern_fault
from ..plan import EXPERIMENT_PREFIX, NONE
from ..queries.derivation import Derivation
from ..queries.keys import MOST_CHARACTERS, key_of
from .kinds import InvalidValue, Kind, choice, integer, quoted, setting, shown, text
from .lists import each, several
from .tables import FieldFault, read_fields, written_fields

SECTION: Final = "derive"
QUERY: Final = "query"
MOST_STEPS: Final = 1_000_000
"""Steps that all patterns together may take on one query: 6 ms in the worst of 13,000 tries."""
_NEITHER: Final = "words or regex must be given: what it is derived by"
_IGNORES_CASE: Final = re.compile(r"\(\?[a-zA-Z]*i")

Patterns: TypeAlias = tuple[tuple[str, str], ...]


def _patterns() -> Kind[Patterns]:
    """A table of value to regular expression, in its order."""

    def entry(pair: object) -> tuple[str, str]:
        assert isinstance(pair, tuple)
        value, pattern = pair
        for rule in _pattern_faults(value, pattern):
            raise InvalidValue((f"{value}={shown(pattern)}", rule))
        return value, pattern

    def read(value: object) -> Patterns:
        if not isinstance(value, dict):
            raise InvalidValue((value, "must be a table (value = regular expression)"))
        return tuple(each(list(value.items()), entry))

    def write(patterns: Patterns) -> str:
        pairs = ", ".join(f"{quoted(value)} = {quoted(pattern)}" for value, pattern in patterns)
        return f"{{ {pairs} }}" if pairs else "{}"

    return Kind("table of value to regular expression", read, write)


def _pattern_faults(value: str, pattern: object) -> Iterator[str]:
    if not 0 < len(value.encode()) <= MAX_TEXT_BYTES or value == NONE:
        yield f"a value must be 1 to {MAX_TEXT_BYTES} bytes, and not {NONE}"
    if not isinstance(pattern, str):
        yield "must be a regular expression"
        return
    if (fault := pattern_fault(pattern)) is not None:
        yield fault
        return
    if _asks_for_what_no_key_has(pattern):
        yield (
            "never matches a part of it: queries are in lower case and in NFKC; write it so, or"
            " put (?i) before it"
        )


def _asks_for_what_no_key_has(pattern: str) -> bool:
    letters = literals(pattern)
    if _IGNORES_CASE.search(pattern):
        letters = letters.lower()
    return unicodedata.normalize("NFKC", pattern) != pattern or any(
        letter != " " and key_of(letter) != letter for letter in letters
    )


@dataclass(frozen=True)
class Declared:
    """One derived attribute as it is configured."""

    attribute: str = setting("", text(r".*", "must be a text"), "Name of the attribute.")
    from_: str = setting(QUERY, choice(QUERY), "What it is derived from.")
    words: tuple[int, ...] = setting(
        [],
        several(integer(1, MOST_CHARACTERS // 2), "list of numbers of words"),
        "The most words of a query of each class; longer queries are one more.",
    )
    regex: Patterns = setting(
        {},
        _patterns(),
        "The value of queries that each regular expression matches: the first counts.",
    )

    @property
    def derivation(self) -> Derivation:
        """The derivation as plans contain it."""
        return Derivation(self.attribute, self.words, self.regex)


Declarations: TypeAlias = tuple[Declared, ...]


def read(value: object) -> tuple[Declarations, list[FieldFault]]:
    """The tables under `derive`, and every fault of the tables."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return (), [(SECTION, None, f"must be tables: [[{SECTION}]]")]
    found, faults = list[Declared](), list[FieldFault]()
    for index, given in enumerate(value):
        key = f"{SECTION}[{index}]"
        values, more = read_fields(key, given, Declared)
        faults += more
        if "attribute" not in given:
            faults.append((f"{key}.attribute", None, "must be given"))
        if not given.get("words") and not given.get("regex"):
            faults.append((key, None, _NEITHER))
        found.append(Declared(**values))
    return tuple(found), faults


def faults_of(
    declared: Declarations, used: Collection[str], mapped: Collection[str]
) -> Iterator[FieldFault]:
    """Every fault of the derived attributes. `used` are the attributes that the configuration asks
    for, `mapped` those that sources map."""
    names, steps = Counter(one.attribute for one in declared), 0.0
    for index, one in enumerate(declared):
        key = f"{SECTION}[{index}]"
        for rule in _name_faults(one.attribute):
            yield f"{key}.attribute", one.attribute, rule
        if names[one.attribute] > 1:
            yield f"{key}.attribute", one.attribute, "is derived more than once"
        if one.attribute in mapped:
            yield f"{key}.attribute", one.attribute, "is mapped by sources: choose another name"
        elif one.attribute not in used:
            rule = "has no effect: no grouping, experiment or propensities name it"
            yield f"{key}.attribute", one.attribute, rule
        if one.words and one.regex:
            yield f"{key}.regex", None, "must not be given beside words"
        if any(later <= earlier for earlier, later in pairwise(one.words)):
            yield f"{key}.words", list(one.words), "must ascend"
        for value, pattern in one.regex:
            steps += most_steps(pattern, MOST_CHARACTERS)
            if steps > MOST_STEPS:
                yield f"{key}.regex", f"{value}={shown(pattern)}", _slow(pattern)
                return


def _slow(pattern: str) -> str:
    steps = most_steps(pattern, MOST_CHARACTERS)
    return (
        f"can take {steps:.3g} steps on a query of {MOST_CHARACTERS} characters, and all"
        f" patterns together may take {MOST_STEPS:,}: bind it to the beginning with ^, or give it"
        " fewer repeats without a bound"
    )


def _name_faults(name: str) -> Iterator[str]:
    if not 0 < len(name.encode()) <= MAX_TEXT_BYTES:
        yield f"a name must be 1 to {MAX_TEXT_BYTES} bytes"
    if "," in name or name.startswith(EXPERIMENT_PREFIX):
        yield f"a name must not contain a comma, or begin with {EXPERIMENT_PREFIX}"
    if name in (USER, IMPRESSION):
        yield "is no attribute, but a unit of experiments: choose another name"


def shape(declared: Declarations) -> list[object]:
    """The values that shape rows, in canonical form."""
    found = [
        (one.attribute, list(one.words), [list(each) for each in one.regex]) for one in declared
    ]
    return [list(each) for each in sorted(found)]


def written(declared: Declarations) -> Iterator[str]:
    """The lines of TOML of all of them."""
    for one in declared:
        yield from ("", f"[[{SECTION}]]", *_written(one))


def _written(one: Declared) -> Iterator[str]:
    left_out = "regex" if one.words else "words"
    return (line for line in written_fields(one) if not line.startswith(f"{left_out} = "))
