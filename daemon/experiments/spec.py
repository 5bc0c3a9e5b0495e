"""The experiments that are declared, or discovered: their variants, planned shares and ramps, their
metrics, and what of the traffic they count. Pure.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["primary", "secondary", "guardrail"]
Assignment: TypeAlias = tuple[tuple[str, str], ...]
"""(experiment, variant) of one impression, by name."""

USER: Final = "user_id"
IMPRESSION: Final = "impression"
"""The two units that are not attributes."""
CONTROLS: Final = ("control", "baseline", "A", "a", "off", "0", "false")
"""Names by which the control of an undeclared experiment is recognized, the likeliest first."""
INTERLEAVED: Final = "interleaved"
"""The variant of impressions whose list two rankers share: their items carry teams."""
PLANNED_IMPRESSIONS: Final = 100_000
MOST_UNDECLARED: Final = 16
"""Undeclared experiments of one impression that are counted, the first by name."""
SILENT_MS: Final = 7 * 24 * 60 * 60 * 1000
"""An undeclared experiment without impressions for so much event time is dropped for a new one."""
MOST_VARIANTS: Final = 10
"""With an arm in a lane: those that are planned, and the first others while there is room."""
FEW_SHARE: Final = 0.1
"""Part of the largest variant's impressions under which a variant may be a misspelt name."""
FEW_USERS: Final = 20
"""So many users may be of such a name, where they are under that part of the largest variant's: a
single one would look like a broken assignment until each other variant has 100."""
FEW_USERS_SHARE: Final = 0.01
"""This part of the largest variant's users may be, however many they are."""
MOST_STRATA: Final = 16
"""Segments of one experiment and lane with tallies of their own; later ones count as `other`."""
DIGEST_DIGITS: Final = 8


def units_of(unit: str) -> str:
    """What the units of an experiment are called.

    >>> units_of("user_id"), units_of("impression"), units_of("session")
    ('users', 'impressions', 'values of session')
    """
    return {USER: "users", IMPRESSION: "impressions"}.get(unit, f"values of {unit}")


@dataclass(frozen=True)
class Spec:
    """One experiment. Metrics are names as the catalog spells them."""

    name: str
    control: str
    planned_impressions: int
    metrics: tuple[str, ...]
    """The primary one first."""
    guardrails: tuple[str, ...] = ()
    unit: str = USER
    weights: tuple[tuple[str, float], ...] = ()
    """(variant, planned share); none: all variants alike."""
    ramp: tuple[tuple[int, tuple[tuple[str, float], ...]], ...] = ()
    """(time in ms, the planned shares from then on), ascending."""
    start_ms: int | None = None
    end_ms: int | None = None
    declared: bool = True
    stratify_by: str | None = None
    """Name of a grouping; each of its segments gets tallies of its own too."""
    daily_cap: int | None = None
    """Impressions of a unit in a day and lane that count, of one of the busiest units of that lane:
    each lane is the same whatever others have read. A unit whose impressions lie in several lanes,
    as the key is not the unit, has so many in each."""
    meanings: tuple[str, ...] = ()
    """The full names of the metrics, where their settings are not those of their names, and of the
    attributes that are derived, with their derivation."""

    @cached_property
    def digest(self) -> str:
        """Hash of what tallies and intervals depend on. Under another one the experiment is counted
        anew; so is one that is declared after it was discovered, whose control may have been
        another."""
        shape = [self.unit, self.planned_impressions, self.start_ms, sorted(self.metrics)]
        shape += [self.metrics[:1], sorted(self.guardrails), self.control]
        shape += [] if self.stratify_by is None else [self.stratify_by]
        shape += [sorted(self.meanings)] if self.meanings else []
        shape += [] if self.daily_cap is None else [["daily_cap", self.daily_cap]]
        shape += [] if self.declared else ["undeclared"]
        canonical = json.dumps(shape, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_DIGITS]

    @cached_property
    def _planned(self) -> frozenset[str]:
        shares = (self.weights, *(of for _, of in self.ramp))
        return frozenset((self.control, *(variant for of in shares for variant, _ in of)))

    def has_room(self, variant: str, arms: Collection[str]) -> bool:
        """Whether a lane with these arms counts a variant that has none yet. Room is kept for those
        that are planned and for the control, so that it does not matter which names come first, and
        interleaved lists need none. A variant for which there is none will not get any."""
        if variant == INTERLEAVED:
            return True
        if self.declared:
            return variant in self._planned or len(self._planned.union(arms)) < MOST_VARIANTS
        lacks_control = not any(name in arms for name in CONTROLS)
        return lacks_control and variant in CONTROLS or len(arms) + lacks_control < MOST_VARIANTS

    def is_full(self, arms: Collection[str]) -> bool:
        """Whether a lane with these arms has names that are not planned, and counts no more of
        them."""
        planned = self._planned if self.declared else frozenset[str]()
        return not self.has_room("", arms) and not planned.issuperset(arms)

    def shares_since(self, at_ms: int) -> int:
        """Since when the shares that are planned for an instant are; 0: from the beginning."""
        return max((since_ms for since_ms, _ in self.ramp if since_ms <= at_ms), default=0)

    def weights_since(self, since_ms: int) -> tuple[tuple[str, float], ...]:
        """The planned shares that begin then."""
        return dict(self.ramp).get(since_ms, self.weights)

    def role(self, metric: str) -> Role:
        """The role of one of its metrics."""
        if metric == self.metrics[0]:
            return "primary"
        return "guardrail" if metric in self.guardrails else "secondary"

    def sides(self, teams: Sequence[str | None]) -> tuple[int, ...]:
        """The sides of the items of an interleaved list: -1 for the control's team, 1 for another
        ranker's, 0 for neither or both. Empty where the list does not name both teams: every
        reaction to it would be a win of the same side.

        The control's team of an undeclared experiment is the first of `CONTROLS` in the list.
        """
        names = (self.control,) if self.declared else CONTROLS
        control = next((name for name in names if name in teams), None)
        sides = tuple(0 if name is None else -1 if name == control else 1 for name in teams)
        return sides if {-1, 1} <= set(sides) else ()

    def covers(self, start_ms: int) -> bool:
        """Whether a base pane that starts then is within the experiment."""
        begun = self.start_ms is None or start_ms >= self.start_ms
        return begun and (self.end_ms is None or start_ms < self.end_ms)


def few_impressions(impressions: Mapping[str, float]) -> frozenset[str]:
    """The variants with so few impressions beside the largest one that their names may be
    misspelt."""
    least = FEW_SHARE * max(impressions.values(), default=0.0)
    return frozenset(name for name, count in impressions.items() if count < least)


def few_users(users: Mapping[str, float]) -> frozenset[str]:
    """The same by users: those of a real variant that loses most of them are more."""
    most = max(users.values(), default=0.0)
    least = min(FEW_SHARE * most, max(FEW_USERS, FEW_USERS_SHARE * most))
    return frozenset(name for name, count in users.items() if count < least)


def section_of(spec: Spec) -> str:
    """The section of the configuration that declares an experiment."""
    bare = re.fullmatch("[A-Za-z0-9_-]+", spec.name)
    return f"experiments.{spec.name if bare else json.dumps(spec.name, ensure_ascii=False)}"


def declare_ramp(spec: Spec) -> str:
    """What to do about shares that were changed on purpose."""
    return f"if the shares were changed on purpose, declare when under [{section_of(spec)}.ramp]"


@dataclass(frozen=True)
class Tracking:
    """The experiments that a lane counts."""

    declared: Mapping[str, Spec]
    most_discovered: int
    """The greatest number of undeclared experiments that are tracked as well."""
    discovered: Spec
    """The spec of those, without a name."""
    excluded: tuple[tuple[int, int], ...] = ()
    """Stretches of time, as of `joined_stretches`, whose impressions are left out."""

    @cached_property
    def units(self) -> tuple[str, ...]:
        """All units by which impressions are assigned to variants, sorted."""
        specs = [*self.declared.values(), *([self.discovered] if self.most_discovered else [])]
        return tuple(sorted({spec.unit for spec in specs}))

    @cached_property
    def unit_attributes(self) -> tuple[str, ...]:
        """The units that are attributes of the impression."""
        return tuple(name for name in self.units if name not in (USER, IMPRESSION))

    def spec(self, name: str) -> Spec | None:
        """The spec of an experiment; None where it is not tracked."""
        declared = self.declared.get(name)
        if declared is None and self.most_discovered:
            return replace(self.discovered, name=name)
        return declared

    def digests(self) -> dict[str, str]:
        """Name → digest; "" stands for all undeclared experiments."""
        found = {name: spec.digest for name, spec in self.declared.items()}
        return found | ({"": self.discovered.digest} if self.most_discovered else {})

    def assignment(self, experiments: Mapping[str, str]) -> Assignment:
        """The (experiment, variant) pairs of an impression that are counted, sorted."""
        declared = [name for name in experiments if name in self.declared]
        others: list[str] = []
        if self.most_discovered:
            others = sorted(experiments.keys() - self.declared.keys())[:MOST_UNDECLARED]
        return tuple((name, experiments[name]) for name in sorted([*declared, *others]))
