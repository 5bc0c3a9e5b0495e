"""`[[derive]]`: reads, checks and writes the attributes that are derived from the query.

Derived attributes shape columns: under another derivation of one, what groups by it begins anew.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from ...events import MAX_TEXT_BYTES
from ...experiments import IMPRESSION, USER
from ...mapping import literals, most_steps, pattern_fault
from ...plan import EXPERIMENT_PREFIX, NONE
from ...queries import MOST_CHARACTERS, Derivation, key_of
from ..values.kinds import (
    InvalidValue,
    Kind,
    choice,
    integer,
    quoted,
    read_each,
    setting,
    several,
    shown,
    text,
)
from ..values.shared_rules import FieldFault, read_fields, written_fields

SECTION: Final = "derive"
QUERY: Final = "query"
MOST_STEPS: Final = 1_000_000
"""Steps that all patterns together may take on one query: 6 ms in the worst of 13,000 tries."""
_BY: Final = ("words", "regex", "directory")
"""By which an attribute may be derived: one of these."""
_NOTHING: Final = "words, regex or directory must be given: what it is derived by"
_VALUE_RULE: Final = f"a value must be 1 to {MAX_TEXT_BYTES} bytes, and not {NONE}"
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
        return tuple(read_each(list(value.items()), entry))

    def write(patterns: Patterns) -> str:
        pairs = ", ".join(f"{quoted(value)} = {quoted(pattern)}" for value, pattern in patterns)
        return f"{{ {pairs} }}" if pairs else "{}"

    return Kind("table of value to regular expression", read, write)


def _pattern_faults(value: str, pattern: object) -> Iterator[str]:
    if not _is_value(value):
        yield _VALUE_RULE
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


def _is_value(value: str) -> bool:
    return 0 < len(value.encode()) <= MAX_TEXT_BYTES and value != NONE


def _asks_for_what_no_key_has(pattern: str) -> bool:
    letters = literals(pattern)
    if _IGNORES_CASE.search(pattern):
        letters = letters.lower()
    return unicodedata.normalize("NFKC", pattern) != pattern or any(
        letter != " " and key_of(letter) != letter for letter in letters
    )


@dataclass(frozen=True)
class DeclaredDerivation:
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
    directory: str = setting(
        "",
        text(r".*", "must be a text"),
        "The directory of dated files query,class, as `relevanced classes add` fills it.",
    )
    unlisted: str = setting(
        "tail",
        text(r".*", "must be a text"),
        "The value of queries that the file in force does not list.",
    )

    @property
    def derivation(self) -> Derivation:
        """The derivation as plans contain it."""
        if self.directory:
            return Derivation(self.attribute, by_files=True, unlisted=self.unlisted)
        return Derivation(self.attribute, self.words, self.regex)


Declarations: TypeAlias = tuple[DeclaredDerivation, ...]


def read(value: object) -> tuple[Declarations, list[FieldFault]]:
    """The tables under `derive`, and every fault of the tables."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        return (), [(SECTION, None, f"must be tables: [[{SECTION}]]")]
    found, faults = list[DeclaredDerivation](), list[FieldFault]()
    for index, given in enumerate(value):
        key = f"{SECTION}[{index}]"
        values, more = read_fields(key, given, DeclaredDerivation)
        faults += more
        if "attribute" not in given:
            faults.append((f"{key}.attribute", None, "must be given"))
        if not any(map(given.get, _BY)):
            faults.append((key, None, _NOTHING))
        found.append(DeclaredDerivation(**values))
    return tuple(found), faults


def faults_of(
    declared: Declarations, used: Collection[str], mapped: Collection[str], fixed: Collection[str]
) -> Iterator[FieldFault]:
    """Every fault of the derived attributes. `used` are the attributes that the configuration asks
    for, `mapped` those that sources map, `fixed` those that are units of experiments or surfaces of
    propensities."""
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
        if one.directory and one.attribute in fixed:
            rule = "is derived by dated files: only groupings may name it"
            yield f"{key}.attribute", one.attribute, rule
        for name, value, rule in _rule_faults(one):
            yield f"{key}.{name}", value, rule
        for value, pattern in one.regex:
            steps += most_steps(pattern, MOST_CHARACTERS)
            if steps > MOST_STEPS:
                yield f"{key}.regex", f"{value}={shown(pattern)}", _slow_rule(pattern)
                return


def _rule_faults(one: DeclaredDerivation) -> Iterator[FieldFault]:
    first, *others = _rules_given(one) or _BY[:1]
    for name in others:
        yield name, None, f"must not be given beside {first}"
    if one.directory and not _is_value(one.unlisted):
        yield "unlisted", one.unlisted, _VALUE_RULE
    if any(later <= earlier for earlier, later in pairwise(one.words)):
        yield "words", list(one.words), "must ascend"


def directory_faults(
    declared: Declarations, is_directory: Callable[[Path], bool]
) -> Iterator[FieldFault]:
    """What of the directories cannot be."""
    for index, one in enumerate(declared):
        if one.directory and not is_directory(Path(one.directory)):
            key = f"{SECTION}[{index}].directory"
            yield key, one.directory, "is no directory that can be read"


def _rules_given(one: DeclaredDerivation) -> list[str]:
    return [name for name in _BY if getattr(one, name)]


def _slow_rule(pattern: str) -> str:
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
    """The values that shape rows, in canonical form. Where files stand shapes none, nor does what
    they say: they are dated."""
    shapes = []
    for one in declared:
        of_files = ("files", one.unlisted) if one.directory else ()
        patterns = [list(pattern) for pattern in one.regex]
        shapes.append((one.attribute, list(one.words), patterns, *of_files))
    return [list(derived) for derived in sorted(shapes)]


def with_directories(declared: Declarations, own: Declarations) -> Declarations:
    """The same, with the directories at which this process has the files of the attributes."""
    directories = {one.attribute: one.directory for one in own if one.directory}
    return tuple(
        replace(one, directory=one.directory and directories.get(one.attribute, one.directory))
        for one in declared
    )


def written(declared: Declarations) -> Iterator[str]:
    """The lines of TOML of all of them."""
    for one in declared:
        yield from ("", f"[[{SECTION}]]")
        left_out = {*_BY}.difference(_rules_given(one)) | (set() if one.directory else {"unlisted"})
        for line in written_fields(one):
            if line.partition(" = ")[0] not in left_out:
                yield line
