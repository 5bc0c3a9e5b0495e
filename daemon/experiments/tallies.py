"""The tallies of experiments, of one lane and of all. Pure.

Users fall into buckets by their hash, so that the variance of an arm is that between buckets of
users: impressions of one user are alike and must not count as independent.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from relevanced.metrics import BUCKETS, Hashes, Integers, Sketch, merged

from .arms import USER_PAGES, Arm, Busiest
from .spec import CONTROLS, INTERLEAVED, SILENT_MS, Spec, Tracking, few_impressions

DAY_MS: Final = 24 * 60 * 60 * 1000
DAYS_KEPT: Final = 100
"""Longer than most experiments run; a day of one takes about 7 kB in the store."""


@dataclass
class Tallies:
    """One experiment of one lane, cumulative since it began, and as it was at the end of each UTC
    day: the difference of two days is what was added in between. A pane belongs to the day in which
    it starts."""

    digest: str
    arms: dict[str, Arm] = field(default_factory=dict)
    last_ms: int = 0
    """Start of the latest base pane with an impression of it; 0: there is none yet."""
    ends: dict[int, dict[str, Arm]] = field(default_factory=dict)
    """Start of a UTC day in ms → the arms at its end, without users. Of the last `DAYS_KEPT` days
    with impressions before that of `last_ms`, ascending; and of earlier ones those at which the
    planned shares changed, so that what was before and after is never one sum."""
    began_ms: int = 0
    """Start of the first base pane with an impression of it; 0: there is none yet, or it is not
    known."""
    users_since_ms: int = 0
    """Users of earlier panes are forgotten: they were assigned by other planned shares."""
    missed: tuple[tuple[int, int], ...] = ()
    """(from, until in ms) of the stretches from an end on, as it was set then, whose impressions do
    not count; until 0: none has counted since."""

    @property
    def has_all_days(self) -> bool:
        """False where days at the beginning are not known by themselves: what the first of `ends`
        contains is not of its day alone."""
        first_ms = day_start(self.began_ms)
        begins = first_ms in self.ends or first_ms == self.open_day_ms
        return self.began_ms > 0 and begins and len(self.ends) <= DAYS_KEPT

    @property
    def first_end_ms(self) -> int:
        """Start of the day from which on the ends of all days are known."""
        return [*self.ends, self.open_day_ms][-DAYS_KEPT - 1 :][0]

    def knows_end_of(self, day_ms: int) -> bool:
        """Whether the arms at the end of the day that starts then are known."""
        is_before = 0 < self.began_ms and day_ms < day_start(self.began_ms)
        is_kept = day_ms in self.ends or day_ms >= self.first_end_ms
        return is_before or is_kept or self.has_all_days

    @property
    def open_day_ms(self) -> int:
        """Start of the day that can still change."""
        return day_start(self.last_ms)

    def at_end_of(self, day_ms: int) -> Mapping[str, Arm]:
        """The arms as they were at the end of the day that starts then, or are by now; none where
        it is not known, or nothing had been counted."""
        if self.last_ms and day_ms >= self.open_day_ms:
            return self.arms
        known = [end for end in self.ends if end <= day_ms]
        return self.ends[known[-1]] if known else {}


Instants = TypeVar("Instants", int, Integers)
"""Milliseconds since the epoch: one instant, or an array of them."""


def day_start(at_ms: Instants) -> Instants:
    """The start in ms of the UTC day of an instant, or of each of several.

    >>> day_start(1_795_176_123_456)
    1795132800000
    """
    return at_ms - at_ms % DAY_MS


def with_traffic(by_name: Mapping[str, Tallies], tracking: Tracking, now_ms: int) -> list[str]:
    """The undeclared experiments of a lane that leave no room for others: those with impressions in
    the `SILENT_MS` before an instant."""
    return [
        name
        for name, tallies in by_name.items()
        if name not in tracking.declared and tallies.last_ms >= now_ms - SILENT_MS
    ]


@dataclass
class Experiments:
    """All experiments of one lane, and what the next commit must write of them."""

    since_ms: dict[str, int | None] = field(default_factory=dict)
    """Name ("" for all undeclared experiments) → the first base pane that counts; None: from the
    beginning."""
    by_name: dict[str, Tallies] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    user_pages: set[tuple[str, int]] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    ended: set[tuple[str, int]] = field(default_factory=set)
    """(name, start in ms) of the days that ended."""
    dropped_days: set[tuple[str, int]] = field(default_factory=set)
    """The same of the days that are no longer kept."""
    left_out: dict[str, dict[str, Arm]] = field(default_factory=dict)
    """Name → variant → the impressions and users that an exclusion left out, without metrics."""
    dropped_ms: int = 0
    """Start of the base pane at which silent ones were last dropped for a new one; 0: never."""
    passed_over: dict[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """Name → what another count of the same log `missed`, for this one to be equal to it."""

    def start_batch(self) -> None:
        """Forget what changed: the commit that wrote it is durable."""
        self.changed, self.user_pages, self.dropped = set(), set(), set()
        self.ended, self.dropped_days = set(), set()

    def begin(self, name: str, digest: str) -> None:
        """Begin to count an experiment."""
        self.by_name[name] = Tallies(digest)
        self.changed.add(name)
        if name in self.dropped:
            # Its former users are still stored under the same keys: every part is written again.
            self.user_pages.update((name, page) for page in range(USER_PAGES))

    def drop(self, name: str) -> None:
        """Forget an experiment."""
        days = self.by_name.pop(name).ends
        self.changed.discard(name)
        self.user_pages = {page for page in self.user_pages if page[0] != name}
        self.ended = {day for day in self.ended if day[0] != name}
        self.dropped.add(name)
        self.dropped_days.update((name, day_ms) for day_ms in days)

    def counts(self, spec: Spec, pane_ms: int) -> bool:
        """Whether a pane counts, in which an experiment has impressions."""
        return self._is_wanted(spec, pane_ms) and spec.covers(pane_ms)

    def miss(self, spec: Spec, pane_ms: int) -> None:
        """Note that a pane with impressions of an experiment does not count. What does not because
        it has ended is kept in mind: the end may be moved afterwards."""
        tallies = self.by_name[spec.name]
        is_past = spec.end_ms is not None and pane_ms >= spec.end_ms
        if not is_past or _is_open(tallies.missed) or not self._is_wanted(spec, pane_ms):
            return
        assert spec.end_ms is not None
        # What counted before the end was moved to the past stays.
        from_ms = max(spec.end_ms, tallies.last_ms + 1)
        tallies.missed = (*tallies.missed, (from_ms, 0))
        self.changed.add(spec.name)

    def _is_wanted(self, spec: Spec, pane_ms: int) -> bool:
        """Whether a pane counts as far as its experiment covers it."""
        passed = self.passed_over.get(spec.name, ())
        if any(from_ms <= pane_ms and not 0 < until_ms <= pane_ms for from_ms, until_ms in passed):
            return False
        since_ms = self.since_ms.get(spec.name if spec.declared else "")
        return since_ms is None or pane_ms >= since_ms

    def reach(self, spec: Spec, pane_ms: int) -> None:
        """Note that a pane is about to be added to an experiment, or the first or the last of
        several within an hour: if it is the first of its day, the day before has ended; if it is
        the first since the planned shares changed, users are counted anew. Panes come in order of
        time."""
        name, shares_since_ms = spec.name, spec.shares_since(pane_ms)
        tallies = self.by_name[name]
        if tallies.users_since_ms < shares_since_ms:
            # A change that is declared late holds from now on.
            is_late = tallies.last_ms >= shares_since_ms
            tallies.users_since_ms = pane_ms if is_late else shares_since_ms
            for arm in tallies.arms.values():
                arm.users, arm.homes = np.zeros(0, np.uint64), {}
            self.user_pages.update((name, page) for page in range(USER_PAGES))
        ended_ms = tallies.open_day_ms
        if tallies.last_ms and pane_ms >= ended_ms + DAY_MS:
            tallies.ends[ended_ms] = {
                variant: Arm(
                    arm.tallies.copy(),
                    arm.without_unit,
                    arm.credits.copy(),
                    # The lane replaces the tallies of a segment, it does not change them.
                    strata=dict(arm.strata),
                    hours=arm.hours,
                )
                for variant, arm in tallies.arms.items()
            }
            for arm in tallies.arms.values():
                arm.hours = np.zeros(24, np.int64)
                arm.busiest.add(arm.busiest_today.capped(spec.daily_cap))
                arm.busiest_today = Busiest()
            self.ended.add((name, ended_ms))
            self._drop_days(spec, tallies)
        tallies.began_ms = tallies.began_ms or (0 if tallies.last_ms else pane_ms)
        if _is_open(tallies.missed):
            tallies.missed = (*tallies.missed[:-1], (tallies.missed[-1][0], pane_ms))
        tallies.last_ms = max(tallies.last_ms, pane_ms)

    def _drop_days(self, spec: Spec, tallies: Tallies) -> None:
        """Forget the ends of the days before the last `DAYS_KEPT`, but for those where the planned
        shares changed: between two that are kept they did not, unless within a single day."""
        days, first_ms = [*tallies.ends], day_start(tallies.began_ms)
        for day_ms, next_ms in zip(days[:-DAYS_KEPT], days[1:]):
            if any(first_ms < at_ms < next_ms + DAY_MS for at_ms, _ in spec.ramp):
                first_ms = day_ms + DAY_MS
            else:
                del tallies.ends[day_ms]
                self.dropped_days.add((spec.name, day_ms))


def _is_open(missed: Sequence[tuple[int, int]]) -> bool:
    return bool(missed) and not missed[-1][1]


@dataclass(frozen=True)
class SteadyDays:
    """Whole UTC days, one after the other, in which a variant and the control had constant shares
    of what they have together."""

    first_ms: int
    """Start of its first day."""
    last_ms: int
    """Start of its last day."""
    arms: Mapping[str, Mapping[str, Integers]]
    """Of the control and the variant: segment → what the days added to its tallies; "" is the
    whole."""


@dataclass(frozen=True)
class MergedTallies:
    """One experiment with the arms of all lanes."""

    spec: Spec
    control: str
    arms: Mapping[str, Arm]
    periods: Mapping[str, tuple[SteadyDays, ...]] = field(default_factory=dict)
    """Variant → the periods within which it is compared with the control. Of one that has none
    here, no days are known: all is taken for one period."""
    mixed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Variant → starts of the days in which its share beside the control changed: they are in none
    of its periods."""
    summed_until_ms: int = 0
    """Start of the last of the days of which only sums are known; 0: there are none."""
    beyond_end: int = 0
    """Impressions that may be of the time from the end on: they had been counted before it was
    declared. No fewer than there are, as days are whole."""
    missed: Mapping[int, int] = field(default_factory=dict)
    """An end that was passed, and is not the end any more → until when no impression counts; 0:
    none has since."""
    shares_since_ms: int = 0
    """Since when the shares are planned by which the users were assigned; 0: from the beginning."""
    users_since_ms: int = 0
    """Since when users are counted; 0: from the beginning. Later than `shares_since_ms` where a
    change was declared late; not 0 either where one was postponed that had been reached."""

    @property
    def compared(self) -> list[str]:
        """The variants that are compared with the control: neither itself, nor interleaved lists,
        which are compared with nothing."""
        return [variant for variant in self.arms if variant not in (self.control, INTERLEAVED)]

    def in_periods(self, variant: str) -> bool:
        """Whether the shares of the variant and the control changed, so that periods are
        compared."""
        return bool(self.mixed.get(variant)) or len(self.periods.get(variant, ())) > 1

    def without_buckets(self, buckets: Collection[int]) -> "MergedTallies":
        """The same without the users of these buckets, in all arms."""
        kept = ~np.isin(np.arange(BUCKETS), [*buckets])[:, np.newaxis]
        arms = {name: replace(arm, tallies=arm.tallies * kept) for name, arm in self.arms.items()}
        periods = {
            variant: tuple(
                replace(one, arms={name: {"": of[""] * kept} for name, of in one.arms.items()})
                for one in of_variant
            )
            for variant, of_variant in self.periods.items()
        }
        return replace(self, arms=arms, periods=periods)

    def by_period(self, variant: str, segment: str = "") -> tuple[Integers, Integers]:
        """The tallies of the control and of a variant within the periods of the latter, in all or
        of a segment, (periods, buckets, columns) each."""
        return (
            self._by_period(self.control, variant, segment),
            self._by_period(variant, variant, segment),
        )

    def _by_period(self, name: str, variant: str, segment: str) -> Integers:
        arm = self.arms.get(name) or Arm.empty(len(self.spec.metrics))
        nothing = np.zeros_like(arm.tallies)
        if variant not in self.periods:
            return (arm.strata.get(segment, nothing) if segment else arm.tallies)[None]
        parts = [one.arms.get(name, {}).get(segment, nothing) for one in self.periods[variant]]
        return np.stack(parts) if parts else nothing[None][:0]

    @property
    def impressions(self) -> int:
        """Settled impressions of all arms."""
        return sum(arm.impressions for arm in self.arms.values())

    @property
    def without_control(self) -> bool:
        """Whether variants have traffic and the control has none; or there are interleaved lists
        alone, and none of them names the team of the control and another one."""
        with_traffic = {variant for variant, arm in self.arms.items() if arm.impressions}
        if with_traffic == {INTERLEAVED}:
            left_out, lists = self.lists_without_teams
            return 0 < left_out == lists
        return bool(with_traffic - {INTERLEAVED}) and self.control not in with_traffic

    @property
    def lists_without_teams(self) -> tuple[int, int]:
        """Interleaved lists with a unit: those without a credit, because they do not name both
        teams, and all."""
        arm = self.arms.get(INTERLEAVED)
        if arm is None:
            return 0, 0
        lists = int(arm.tallies[:, 0].sum())
        return lists - int(arm.credits[:, 0].sum()), lists

    def without_unit(self, variant: str) -> int:
        """Settled impressions of one arm that lack the unit."""
        arm = self.arms.get(variant)
        return 0 if arm is None else arm.without_unit


def merge_tallies(spec: Spec, tallies: Sequence[Tallies]) -> MergedTallies:
    """The sum of the lanes' arms, without those that were counted under another configuration.

    The control of an undeclared experiment is the first of `CONTROLS` that has an arm, without
    those of a negligible share where others have one.
    """
    arms: dict[str, list[Arm]] = {}
    counted = [of_lane for of_lane in tallies if of_lane.digest == spec.digest]
    users_since_ms = max((one.users_since_ms for one in counted), default=0)
    since_ms = spec.shares_since(users_since_ms)
    nobody = np.zeros(0, np.uint64)
    for of_lane in counted:
        for variant, arm in of_lane.arms.items():
            is_behind = of_lane.users_since_ms < since_ms
            arm = replace(arm, users=nobody, homes={}) if is_behind else arm
            arms.setdefault(variant, []).append(arm)
    control = spec.control
    if not spec.declared:
        control = _discovered_control(arms) or spec.control
    ordered = sorted(arms, key=lambda variant: (variant != control, variant))
    summed = {variant: _sum(arms[variant], spec.daily_cap) for variant in ordered}
    beyond_end = sum(_beyond_end(spec, one) for one in counted)
    missed: dict[int, int] = {}
    for from_ms, until_ms in (stretch for one in counted for stretch in one.missed):
        if spec.end_ms is None or from_ms < spec.end_ms:
            missed[from_ms] = max(missed.get(from_ms, 0), until_ms)
    return MergedTallies(
        spec,
        control,
        summed,
        beyond_end=beyond_end,
        missed=missed,
        shares_since_ms=since_ms,
        users_since_ms=users_since_ms,
    )


def _discovered_control(arms: Mapping[str, Sequence[Arm]]) -> str | None:
    impressions = {
        name: sum(arm.impressions for arm in of_lanes)
        for name, of_lanes in arms.items()
        if name != INTERLEAVED
    }
    strays = few_impressions(impressions)
    known = [name for name in CONTROLS if name in impressions]
    return next(chain((name for name in known if name not in strays), known), None)


def _beyond_end(spec: Spec, tallies: Tallies) -> int:
    if spec.end_ms is None or tallies.last_ms < spec.end_ms:
        return 0
    within = tallies.at_end_of(day_start(spec.end_ms) - DAY_MS)
    until_now, before = (
        sum(arm.impressions for arm in arms.values()) for arms in (tallies.arms, within)
    )
    return until_now - before


def _sum(arms: Sequence[Arm], daily_cap: int | None) -> Arm:
    tallies: Integers = np.sum([arm.tallies for arm in arms], axis=0)
    users = merged([Sketch(arm.users) for arm in arms]).hashes
    credits: Integers = np.sum([arm.credits for arm in arms], axis=0)
    parts: dict[str, list[Integers]] = {}
    homes: dict[str, Hashes] = {}
    for arm in arms:
        for segment, part in arm.strata.items():
            parts.setdefault(segment, []).append(part)
        for segment, of_lane in arm.homes.items():
            homes[segment] = np.union1d(homes.get(segment, of_lane), of_lane)
    strata: dict[str, Integers] = {
        segment: np.sum(of_lanes, axis=0) for segment, of_lanes in parts.items()
    }
    hours: Integers = np.sum([arm.hours for arm in arms], axis=0)
    busiest = Busiest()
    for one in (one for arm in arms for one in (arm.busiest, arm.busiest_today.capped(daily_cap))):
        busiest.add(one)
    return Arm(
        tallies=tallies,
        without_unit=sum(arm.without_unit for arm in arms),
        credits=credits,
        users=users,
        homes=homes,
        strata=strata,
        hours=hours,
        busiest=busiest,
        beyond_cap=sum(arm.beyond_cap for arm in arms),
    )
