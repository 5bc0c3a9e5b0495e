"""Resolve a metric name by a catalog of entries."""

from collections.abc import Mapping
from typing import Final

from .metric import Entry, Metric, Parameter, Value
from .names import Spelling, join, number_text, split
from .suggestions import suggest

_SYNONYMS: Final = {
    ("dcg", "log2"): ("gain", "linear"),
    ("dcg", "exp-log2"): ("gain", "exponential"),
}
"""Spellings of ir_measures -> ours."""


def resolve(
    name: str,
    catalog: Mapping[str, Entry],
    *,
    configured: Mapping[str, float],
    ideal: str = "list",
) -> Metric:
    """Resolve a name in a catalog.

    The canonical name states the parameters that differ from their defaults. Defaults in
    `configured` replace those of the catalog. `ideal` replaces the default of that parameter, but
    the canonical name states it if it is not `list`, since values differ. Raises ValueError.

    >>> empty = Entry(lambda lists, metric: lists.lengths == 0, "", meaning="", cutoff="none")
    >>> table = {"ZeroResults": empty}
    >>> resolve("ZeroResults", table, configured={}).name
    'ZeroResults'
    """
    spelling = split(name)
    entry = catalog.get(spelling.family)
    if entry is None:
        raise ValueError(suggest(name, spelling, catalog))
    given = _translated(name, spelling, entry)
    settings: dict[str, Value] = {}
    shown: dict[str, str] = {}
    for key, parameter in entry.parameters.items():
        default: Value = float(configured[key]) if key in configured else parameter.default
        assumed = ideal if key == "ideal" else default
        value = _read(name, key, given.get(key), parameter, assumed)
        settings[key] = value
        if parameter.required or value != default or value != assumed:
            shown[key] = value if isinstance(value, str) else number_text(value)
    k, recall = _cutoff(name, spelling, entry)
    if recall is not None:
        settings["recall"] = recall
    cutoff = recall if k is None else str(k)
    canonical = join(Spelling(spelling.family, shown, cutoff))
    return Metric(canonical, k, tuple(settings.items()), entry)


def _translated(name: str, spelling: Spelling, entry: Entry) -> dict[str, str]:
    """The parameters in our spelling. Raises ValueError for one that the family does not have."""
    given = dict(_SYNONYMS.get(pair, pair) for pair in spelling.parameters.items())
    for key in given:
        if key not in entry.parameters:
            allowed = ", ".join(entry.parameters) or "none"
            raise ValueError(
                f"{name!r}: {key} is not a parameter of {spelling.family}, which takes {allowed}"
            )
    return given


def _read(name: str, key: str, text: str | None, parameter: Parameter, default: Value) -> Value:
    if text is None:
        if parameter.required:
            raise ValueError(f"{name!r}: {key} must be given: it {parameter.rule}")
        return default
    try:
        return parameter.read(text)
    except ValueError:
        raise ValueError(f"{name!r}: {key}={text}: {parameter.rule}") from None


def _cutoff(name: str, spelling: Spelling, entry: Entry) -> tuple[int | None, str | None]:
    """(k, recall level): what follows the @, None for what does not."""
    text = spelling.cutoff
    if entry.cutoff == "recall":
        return None, _recall(name, spelling)
    if text is None:
        return None, None
    if entry.cutoff == "none":
        raise ValueError(f"{name!r}: {spelling.family} takes the whole list, so no @{text}")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name!r}: k={text}: must be a whole number >= 1")
    return int(text), None


def _recall(name: str, spelling: Spelling) -> str:
    rule = f"{spelling.family} must have a recall level from 0 to 1: {spelling.family}@0.5"
    try:
        level = float(spelling.cutoff or "")
    except ValueError:
        raise ValueError(f"{name!r}: {rule}") from None
    if not 0 <= level <= 1:
        raise ValueError(f"{name!r}: {rule}")
    return number_text(level)
