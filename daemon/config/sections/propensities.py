"""`[propensities]`: reads, checks and writes how likely users look at each rank, by surface. Pure.

Propensities shape columns: under others, weighted metrics begin anew. Without them no reaction is
weighted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from relevanced.metrics import CLIP, Metric, Propensities

from ...events import MAX_TEXT_BYTES
from ...plan import Surfaces
from ..values.kinds import number, optional, quoted, setting, several, text
from ..values.shared_rules import FieldFault, read_fields, written_fields

SECTION: Final = "propensities"
TABLES: Final = "tables"
MOST_CLIP: Final = 1_000.0
MOST_TABLES: Final = 100
_MUSTS: Final = {
    "version": "must be given: scores of different estimates cannot be compared",
    "ranks": "must be given: a list of propensities, from rank 1 on",
}
_VERSION: Final = "must be a text of at most 64 characters"
_NEEDED: Final = f"at least one table is needed: [{SECTION}.{TABLES}.NAME]"
_PROPENSITY: Final = number("must be above 0 and at most 1", lambda v: 0 < v <= 1)
_CLIP: Final = number(f"must be between 1 and {MOST_CLIP:g}", lambda v: 1 <= v <= MOST_CLIP)


@dataclass(frozen=True)
class DeclaredTable:
    """The propensities of one surface."""

    version: str = setting("", text(r".{0,64}", _VERSION), "Name of this estimate.")
    ranks: tuple[float, ...] = setting(
        [],
        several(_PROPENSITY, "list of propensities"),
        "Propensities from rank 1 on; the last one counts for all lower ranks.",
    )


@dataclass(frozen=True)
class DeclaredPropensities:
    """The whole section."""

    attribute: str = setting("surface", text(), "The attribute that names the surface.")
    default: str | None = setting(
        None,
        optional(text()),
        "The table for impressions without a surface, or with one that has none. Default: the "
        "only table; with several, they are undefined.",
    )
    clip: float = setting(CLIP, _CLIP, "Upper limit of the weight of a reaction.")
    tables: tuple[tuple[str, DeclaredTable], ...] = ()
    """(name, table), sorted by name"""

    @property
    def surfaces(self) -> Surfaces:
        """The propensities as the plan contains them."""
        tables = tuple(Propensities(name, one.version, one.ranks) for name, one in self.tables)
        only = tables[0].surface if len(tables) == 1 else None
        return Surfaces(self.attribute, tables, self.default or only, self.clip)


Given: TypeAlias = DeclaredPropensities | None


def read(value: object) -> tuple[Given, list[FieldFault]]:
    """The section, None if there is none, and every fault of it."""
    if value is None:
        return None, []
    if not isinstance(value, dict):
        return None, [(SECTION, value, f"must be a section: [{SECTION}]")]
    inner = value.get(TABLES, {})
    rest = {name: given for name, given in value.items() if name != TABLES}
    values, faults = read_fields(SECTION, rest, DeclaredPropensities)
    if not isinstance(inner, dict):
        return None, [*faults, (f"{SECTION}.{TABLES}", inner, _NEEDED)]
    tables: dict[str, DeclaredTable] = {}
    for name, given in inner.items():
        key = f"{SECTION}.{TABLES}.{name}"
        if not isinstance(given, dict):
            faults.append((key, given, f"must be a section: [{key}]"))
            continue
        fields, more = read_fields(key, given, DeclaredTable)
        missing = ((f"{key}.{one}", None, rule) for one, rule in _MUSTS.items() if one not in given)
        tables[name], faults = DeclaredTable(**fields), [*faults, *more, *missing]
    return DeclaredPropensities(**values, tables=tuple(sorted(tables.items()))), faults


def faults_of(given: Given, metrics: Sequence[Metric], depth: int) -> Iterator[FieldFault]:
    """Every fault of the section."""
    weighted = [metric.name for metric in metrics if metric.needs == "propensities"]
    if given is None:
        for name in weighted:
            yield "metrics.names", name, f"needs propensities: {_NEEDED}"
        return
    if not weighted:
        yield SECTION, None, "has no effect: needs IPS-P or IPS-DCG in metrics.names"
    if not 0 < len(given.tables) <= MOST_TABLES:
        yield f"{SECTION}.{TABLES}", None, (
            _NEEDED
            if not given.tables
            else (f"must be at most {MOST_TABLES}, not {len(given.tables)}")
        )
    for name, table in given.tables:
        yield from _table_faults(f"{SECTION}.{TABLES}.{name}", name, table, depth)
    if given.default is not None and given.default not in dict(given.tables):
        yield f"{SECTION}.default", given.default, f"must be one of {SECTION}.{TABLES}"


def _table_faults(key: str, name: str, table: DeclaredTable, depth: int) -> Iterator[FieldFault]:
    if not 0 < len(name.encode(errors="surrogatepass")) <= MAX_TEXT_BYTES:
        yield key, name, f"a name must be 1 to {MAX_TEXT_BYTES} bytes"
    for field_name, rule in _MUSTS.items():
        if not getattr(table, field_name):
            yield f"{key}.{field_name}", None, rule
    if len(table.ranks) > depth:
        yield f"{key}.ranks", len(table.ranks), f"must be at most depth ({depth}) ranks"


def shape(given: Given) -> object:
    """The values that shape rows, in canonical form; None without propensities."""
    if given is None:
        return None
    surfaces = given.surfaces
    tables = [[table.surface, table.version, list(table.values)] for table in surfaces.tables]
    return {"attribute": surfaces.attribute, "default": surfaces.default, "clip": surfaces.clip} | {
        "tables": tables
    }


def written(given: Given) -> Iterator[str]:
    """The lines of TOML of the section."""
    if given is None:
        return
    yield from ("", f"[{SECTION}]", *written_fields(given))
    for name, table in given.tables:
        yield from written_table(name, table)


def written_table(name: str, table: DeclaredTable) -> Iterator[str]:
    """The lines of TOML of one table."""
    yield from ("", f"[{SECTION}.{TABLES}.{quoted(name)}]", *written_fields(table))
