"""What an experiment is: its arms, its metrics, whom it is dealt to. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal["primary", "secondary", "guardrail"]
Assignment: TypeAlias = tuple[tuple[str, str], ...]
"""(experiment, variant) of one impression, by name."""

USER: Final = "user_id"
IMPRESSION: Final = "impression"
"""The two units that are no attribute."""
CONTROLS: Final = ("control", "baseline", "A", "a", "off", "0", "false")
"""What the control of an experiment that nobody declared is called, the likeliest first."""
INTERLEAVED: Final = "interleaved"
"""The variant of impressions whose list two rankers share: their items carry teams."""
PLANNED_IMPRESSIONS: Final = 100_000
MOST_UNDECLARED: Final = 16
"""Undeclared experiments of one impression that are looked at, the first by name."""
MOST_VARIANTS: Final = 10
MOST_STRATA: Final = 16
"""Segments of one experiment and lane that are told apart; what comes later counts as `other`."""
DIGEST_DIGITS: Final = 8


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
    start_ms: int | None = None
    end_ms: int | None = None
    declared: bool = True
    stratify_by: str | None = None
    """Name of a grouping, by whose segments tallies are kept apart too."""

    @cached_property
    def digest(self) -> str:
        """Of what the tallies and the statements rest on: another one counts anew."""
        shape = [self.unit, self.planned_impressions, self.start_ms, sorted(self.metrics)]
        shape += [self.metrics[:1], sorted(self.guardrails), self.control]
        shape += [] if self.stratify_by is None else [self.stratify_by]
        canonical = json.dumps(shape, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_DIGITS]

    def role(self, metric: str) -> Role:
        """What the metric is there for."""
        if metric == self.metrics[0]:
            return "primary"
        return "guardrail" if metric in self.guardrails else "secondary"

    def team(self, name: str | None) -> int:
        """-1 of the control, 1 of another ranker, 0 of none or of both."""
        if name is None:
            return 0
        control = name == self.control if self.declared else name in CONTROLS
        return -1 if control else 1

    def covers(self, start_ms: int) -> bool:
        """Whether a base pane that begins then belongs to the experiment."""
        begun = self.start_ms is None or start_ms >= self.start_ms
        return begun and (self.end_ms is None or start_ms < self.end_ms)


@dataclass(frozen=True)
class Tracking:
    """The experiments that a lane keeps tallies of."""

    declared: Mapping[str, Spec]
    most_discovered: int
    """Undeclared ones that are tracked beside them; 0: none."""
    discovered: Spec
    """What is taken for granted of those; without a name."""

    @cached_property
    def units(self) -> tuple[str, ...]:
        """What an impression is asked for: who or what it was dealt to."""
        specs = [*self.declared.values(), *([self.discovered] if self.most_discovered else [])]
        return tuple(sorted({spec.unit for spec in specs}))

    @cached_property
    def unit_attributes(self) -> tuple[str, ...]:
        """Those of them that are attributes."""
        return tuple(name for name in self.units if name not in (USER, IMPRESSION))

    def spec(self, name: str) -> Spec | None:
        """What is known of an experiment; None where it is not tracked."""
        known = self.declared.get(name)
        if known is None and self.most_discovered:
            return replace(self.discovered, name=name)
        return known

    def digests(self) -> dict[str, str]:
        """Digest by name; "" stands for all that are not declared."""
        found = {name: spec.digest for name, spec in self.declared.items()}
        return found | ({"": self.discovered.digest} if self.most_discovered else {})

    def assignment(self, experiments: Mapping[str, str]) -> Assignment:
        """What counts of an impression's experiments."""
        declared = [name for name in experiments if name in self.declared]
        others: list[str] = []
        if self.most_discovered:
            others = sorted(experiments.keys() - self.declared.keys())[:MOST_UNDECLARED]
        return tuple((name, experiments[name]) for name in sorted([*declared, *others]))
