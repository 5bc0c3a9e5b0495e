"""The oracle of experiments: the tallies of each arm once panes have settled.

Like the oracle of the stream it reads the final impressions, and shares no code with the daemon.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b

MAX_UNDECLARED = 16
MAX_VARIANTS = 10
MAX_STRATA = 16
SILENT_MS = 7 * 86_400_000
SKETCH = 65_536
DAY_MS = 86_400_000
INTERLEAVED = "interleaved"
CONTROLS = ("control", "baseline", "A", "a", "off", "0", "false")


@dataclass(frozen=True)
class Settled:
    """An impression whose base pane has settled."""

    pane_ms: int
    id: str
    user: str | None
    attributes: Mapping[str, str]
    experiments: Mapping[str, str]
    row: Mapping[str, int]
    """What it adds to its rows."""
    gains: tuple[float, ...] = ()
    teams: tuple[str | None, ...] = ()
    segments: Mapping[str, str] = field(default_factory=dict)
    """Grouping → segment."""


@dataclass
class Arm:
    cells: Counter[tuple[int, str]] = field(default_factory=Counter)
    """(bucket, column) → sum"""
    without_unit: int = 0
    users: set[int] = field(default_factory=set)
    homes: dict[int, str] = field(default_factory=dict)
    """User → the segment where it was first seen"""
    credits: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(bucket, credit) → number of interleaved lists"""
    strata: dict[str, Counter[tuple[int, str]]] = field(default_factory=dict)
    """Segment → cells"""
    today: Counter[int] = field(default_factory=Counter)
    """User → impressions of the last day"""
    hours: Counter[int] = field(default_factory=Counter)
    """Hour of the last day → impressions with a unit"""

    @property
    def sketch(self) -> list[int]:
        return sorted(self.users)[:SKETCH]


@dataclass
class Experiment:
    arms: dict[str, Arm] = field(default_factory=dict)
    last_ms: int = 0
    began_ms: int = 0
    ends: dict[int, dict[str, Arm]] = field(default_factory=dict)
    """Start of a day → the arms at its end, of earlier days than that of `last_ms`."""


Arms = dict[str, Experiment]


def run(
    settled: Iterable[Settled],
    units: Mapping[str, str],
    discovered: int,
    overflow: Counter[str],
    stratify: Mapping[str, str],
) -> Arms:
    """Count the experiments of one lane, pane by pane.

    `units` maps declared experiments to their units, `stratify` some of them to a grouping.
    """
    panes: dict[int, list[Settled]] = {}
    for impression in settled:
        panes.setdefault(impression.pane_ms, []).append(impression)
    experiments: Arms = {}
    for pane_ms, impressions in sorted(panes.items()):
        assigned = [
            (one, counted_variants(one.experiments, units, discovered)) for one in impressions
        ]
        names = Counter(name for _, variants in assigned for name in variants)
        admit_experiments(experiments, names, pane_ms, units, discovered, overflow)
        for name in names.keys() & experiments.keys():
            end_day(experiments[name], pane_ms)
            of_name = [(one, variants[name]) for one, variants in assigned if name in variants]
            controls = ("control",) if name in units else CONTROLS
            unit = units.get(name, "user_id")
            count(experiments[name], of_name, unit, controls, overflow)
            if name in stratify:
                count_strata(experiments[name], of_name, unit, stratify[name])
            experiments[name].last_ms = pane_ms
    return experiments


def end_day(experiment: Experiment, pane_ms: int) -> None:
    """Note the arms as they are where a pane is the first of another day."""
    experiment.began_ms = experiment.began_ms or pane_ms
    last_day = experiment.last_ms // DAY_MS
    if experiment.last_ms and pane_ms // DAY_MS != last_day:
        experiment.ends[last_day * DAY_MS] = deepcopy(experiment.arms)
        for arm in experiment.arms.values():
            arm.hours.clear()
            arm.today.clear()


def counted_variants(
    experiments: Mapping[str, str], units: Mapping[str, str], discovered: int
) -> dict[str, str]:
    """Experiment → variant, of declared experiments and of the first undeclared ones by name."""
    others = sorted(name for name in experiments if name not in units)
    kept = others[:MAX_UNDECLARED] if discovered else []
    return {name: v for name, v in experiments.items() if name in units or name in kept}


def admit_experiments(
    experiments: Arms,
    names: Counter[str],
    now_ms: int,
    units: Mapping[str, str],
    discovered: int,
    overflow: Counter[str],
) -> None:
    """Admit new experiments, the busiest first; silent ones make room for undeclared ones."""
    for name in busiest(names):
        if name in experiments:
            continue
        if name not in units:
            others = [other for other in experiments if other not in units]
            if len(others) >= discovered:
                for other in others:
                    if experiments[other].last_ms < now_ms - SILENT_MS:
                        del experiments[other]
                others = [other for other in others if other in experiments]
            if len(others) >= discovered:
                overflow["experiment"] += names[name]
                continue
        experiments[name] = Experiment()


def count(
    experiment: Experiment,
    assigned: Sequence[tuple[Settled, str]],
    unit: str,
    controls: Collection[str],
    overflow: Counter[str],
) -> None:
    """Count one pane of one experiment; only the first `MAX_VARIANTS` variants have an arm, of
    which one is kept for a control, and what is interleaved."""
    variants = Counter(variant for _, variant in assigned)
    for variant in busiest(variants):
        if variant not in experiment.arms:
            has_control = any(control in experiment.arms for control in controls)
            is_control = variant in controls and not has_control
            is_kept = is_control or variant == INTERLEAVED
            if not is_kept and len(experiment.arms) + (not has_control) >= MAX_VARIANTS:
                overflow["variant"] += variants[variant]
            else:
                experiment.arms[variant] = Arm()
    for one, variant in assigned:
        if variant in experiment.arms:
            add(experiment.arms[variant], one, unit_of(one, unit), variant, controls)
            if unit != "impression" and unit_of(one, unit) is not None:
                experiment.arms[variant].today[hash_of(unit_of(one, unit))] += 1


def count_strata(
    experiment: Experiment, assigned: Sequence[tuple[Settled, str]], unit: str, grouping: str
) -> None:
    """Count the same cells by segment; only the first `MAX_STRATA` segments, the busiest of a pane
    first, have cells of their own."""
    counted = [
        (one, variant)
        for one, variant in assigned
        if variant in experiment.arms and unit_of(one, unit) is not None
    ]
    segments = {s for arm in experiment.arms.values() for s in arm.strata if s != "other"}
    for segment in busiest(Counter(one.segments[grouping] for one, _ in counted)):
        if segment != "other" and len(segments) < MAX_STRATA:
            segments.add(segment)
    firsts: dict[tuple[str, int], set[str]] = {}
    for one, variant in counted:
        segment = one.segments[grouping]
        stratum = segment if segment in segments else "other"
        firsts.setdefault((variant, hash_of(unit_of(one, unit))), set()).add(stratum)
        cells = experiment.arms[variant].strata.setdefault(stratum, Counter())
        add_cells(cells, one, hash_of(unit_of(one, unit)) % 64)
    for (variant, user), of_pane in firsts.items():
        first = min(of_pane - {"other"}, default="other")
        experiment.arms[variant].homes.setdefault(user, first)


def hash_of(unit: str | None) -> int:
    assert unit is not None
    digest = blake2b(unit.encode(), digest_size=8, person=b"relevanced users").digest()
    return int.from_bytes(digest, "little")


def add_cells(cells: Counter[tuple[int, str]], one: Settled, bucket: int) -> None:
    for column, value in one.row.items():
        if ":" in column or column == "impressions":
            cells[bucket, column] += value


def busiest(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda name: (-counts[name], name))


def unit_of(one: Settled, unit: str) -> str | None:
    return {"user_id": one.user, "impression": one.id}.get(unit, one.attributes.get(unit))


def add(arm: Arm, one: Settled, unit: str | None, variant: str, controls: Collection[str]) -> None:
    if unit is None:
        arm.without_unit += 1
        return
    hashed = hash_of(unit)
    arm.users.add(hashed)
    if variant == INTERLEAVED and one.teams:
        control = next((name for name in controls if name in one.teams), None)
        signs = [0 if t is None else -1 if t == control else 1 for t in one.teams]
        lead = sum(gain * sign for gain, sign in zip(one.gains, signs))
        if -1 in signs and 1 in signs:
            arm.credits[hashed % 64, (lead > 0) - (lead < 0)] += 1
    add_cells(arm.cells, one, hashed % 64)
    arm.hours[one.pane_ms % 86_400_000 // 3_600_000] += 1
