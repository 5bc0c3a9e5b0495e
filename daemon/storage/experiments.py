"""Experiments of a lane as bytes, and back. Pure.

experiment:H          header of the experiment whose name hashes to H: its tallies by variant
experiment:H:users:P  part P of the sketches of its users, by variant
experiment:H:day:D    its tallies by variant at the end of the UTC day that starts at D, in ms;
                      written once, after the day
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np

from relevanced.metrics import BUCKETS, CAPACITY, Integers, distinct

from ..experiments import USER_PAGES, Arm, Busiest, Experiments, Tallies, Tracking
from .keys import (
    DAY_MARK,
    EXPERIMENTS_PREFIX,
    USERS_MARK,
    experiment_day_key,
    experiment_key,
    experiment_users_key,
    pack,
    pack_integers,
    unpack,
    unpack_integers,
)

Stored = TypeVar("Stored")


class Tracked(msgspec.Struct, array_like=True, frozen=True):
    """What the lane's head stores of an experiment, or of all undeclared ones (name ""): the digest
    of its specification, and since when it counts."""

    name: str
    digest: str
    since_ms: int | None
    dropped_ms: int = 0
    """Of all undeclared ones: when silent ones were last dropped."""


class _Arm(msgspec.Struct, array_like=True, frozen=True):
    variant: str
    without_unit: int
    tallies: bytes
    credits: bytes
    """Empty without interleaved lists."""
    hours: list[int]
    beyond_cap: int
    busiest: tuple[bytes, bytes]
    """Of the days before, and of the last day: units, credits and impressions of each."""


class _Header(msgspec.Struct, array_like=True, frozen=True):
    name: str
    digest: str
    last_ms: int
    variants: list[_Arm]
    strata: list[tuple[str, str, bytes]] = []
    """(variant, segment, tallies)"""
    began_ms: int = 0
    """0 also where the experiment began before days were kept."""
    users_since_ms: int = 0
    missed: tuple[tuple[int, int], ...] = ()


class _Day(msgspec.Struct, array_like=True, frozen=True):
    name: str
    began_ms: int
    """Of the experiment: under its name another one may have begun since."""
    day_ms: int
    variants: list[_Arm]
    strata: list[tuple[str, str, bytes]] = []
    """Both as of the header."""


class _Users(msgspec.Struct, array_like=True, frozen=True):
    name: str
    parts: list[tuple[str, str, bytes]]
    """(variant, segment in which they were first seen, hashes); the segment is empty if the
    experiment is not stratified."""


def blobs_of(experiments: Experiments) -> dict[str, bytes]:
    """Return key → value of everything that the next commit must write."""
    blobs = {
        experiment_key(name): _header(experiments, name) for name in sorted(experiments.changed)
    }
    for name, page in sorted(experiments.user_pages):
        users = [
            (variant, segment, pack_integers(part.view(np.int64)))
            for variant, arm in experiments.by_name[name].arms.items()
            for segment, part in arm.user_page(page).items()
        ]
        blobs[experiment_users_key(name, page)] = pack(_Users(name, users))
    for name, day_ms in sorted(experiments.ended):
        tallies = experiments.by_name[name]
        if day_ms in tallies.ends:
            ended = tallies.ends[day_ms]
            day = _Day(name, tallies.began_ms, day_ms, _packed(ended), _packed_strata(ended))
            blobs[experiment_day_key(name, day_ms)] = pack(day)
    return blobs


def unlinked(experiments: Experiments) -> list[str]:
    """Return the keys of experiments that are no longer kept."""
    dropped = sorted(experiments.dropped - experiments.by_name.keys())
    days = sorted(
        (name, day_ms)
        for name, day_ms in experiments.dropped_days
        if name not in experiments.by_name or day_ms not in experiments.by_name[name].ends
    )
    return [
        *(
            key
            for name in dropped
            for key in (
                experiment_key(name),
                *(experiment_users_key(name, page) for page in range(USER_PAGES)),
            )
        ),
        *(experiment_day_key(name, day_ms) for name, day_ms in days),
    ]


def tracked(experiments: Experiments, tracking: Tracking) -> list[Tracked]:
    """Return the head's entries: of the experiments that are configured, and of all that have
    tallies."""
    digests = {name: tallies.digest for name, tallies in experiments.by_name.items()}
    digests |= tracking.digests()
    since_ms, undeclared_ms = experiments.since_ms, experiments.since_ms.get("")
    return [
        Tracked(
            name,
            digest,
            since_ms.get(name, undeclared_ms),
            0 if name else experiments.dropped_ms,
        )
        for name, digest in sorted(digests.items())
    ]


def of_names(blobs: Mapping[str, Stored], names: Iterable[str]) -> dict[str, Stored]:
    """Return those of the values by key that belong to these experiments."""
    keys = {experiment_key(name) for name in names}
    return {key: data for key, data in blobs.items() if ":".join(key.split(":")[:2]) in keys}


def read(blobs: Mapping[str, bytes | None]) -> dict[str, Tallies]:
    """Return experiments by name, read from those of the blobs that are theirs; without days."""
    by_name: dict[str, Tallies] = {}
    own = {key: data for key, data in blobs.items() if key.startswith(EXPERIMENTS_PREFIX) and data}
    for key, data in own.items():
        if USERS_MARK not in key and DAY_MARK not in key:
            header = unpack(data, _Header)
            arms = _arms(header.variants, header.strata)
            by_name[header.name] = Tallies(
                header.digest,
                arms,
                header.last_ms,
                began_ms=header.began_ms,
                users_since_ms=header.users_since_ms,
                missed=header.missed,
            )
    for key, data in own.items():
        if USERS_MARK in key:
            _read_users(by_name, unpack(data, _Users))
    for arm in (arm for tallies in by_name.values() for arm in tallies.arms.values()):
        arm.users = distinct(arm.users)[:CAPACITY]
        last = arm.users[-1:]
        arm.homes = {s: of[of <= last] for s, of in sorted(arm.homes.items()) if len(of)}
    return by_name


@dataclass(frozen=True)
class EndedDay:
    """An ended day of an experiment."""

    name: str
    began_ms: int
    day_ms: int
    arms: dict[str, Arm]


def ended_days(blobs: Mapping[str, bytes | None]) -> dict[str, EndedDay]:
    """Return the days that are among the blobs, by key."""
    found = {key: unpack(data, _Day) for key, data in blobs.items() if DAY_MARK in key and data}
    return {
        key: EndedDay(day.name, day.began_ms, day.day_ms, _arms(day.variants, day.strata))
        for key, day in found.items()
    }


def add_days(by_name: Mapping[str, Tallies], days: Iterable[EndedDay]) -> None:
    """Add to these experiments their days."""
    for day in sorted(days, key=lambda day: day.day_ms):
        if day.name in by_name and by_name[day.name].began_ms == day.began_ms:
            by_name[day.name].ends[day.day_ms] = day.arms


def _read_users(by_name: Mapping[str, Tallies], users: _Users) -> None:
    if users.name not in by_name:
        return
    for variant, segment, packed in users.parts:
        arm = by_name[users.name].arms.get(variant)
        if arm is not None:
            hashes = unpack_integers(packed).view(np.uint64)
            arm.users = np.concatenate((arm.users, hashes))
            if segment:
                arm.homes[segment] = np.union1d(arm.homes.get(segment, hashes), hashes)


def adopt(
    experiments: Experiments,
    tracking: Tracking,
    stored: Iterable[Tracked],
    tallies_by_name: Mapping[str, Tallies],
    next_pane_ms: int | None,
) -> None:
    """Continue the stored tallies whose specification is still configured, and drop the others.

    An experiment with another specification than before counts from `next_pane_ms`: the first base
    pane of which this configuration will see all impressions; None before the first event.
    """
    entries = {entry.name: entry for entry in stored}
    for name, digest in tracking.digests().items():
        same = name in entries and entries[name].digest == digest
        experiments.since_ms[name] = entries[name].since_ms if same else next_pane_ms
        if same and not name:
            experiments.dropped_ms = entries[name].dropped_ms
    for name, tallies in tallies_by_name.items():
        spec = tracking.spec(name)
        experiments.by_name[name] = tallies
        entry = name if spec is not None and spec.declared else ""
        kept = entry in entries and spec is not None and entries[entry].digest == spec.digest
        if not kept or spec is None or tallies.digest != spec.digest:
            experiments.drop(name)


def _header(experiments: Experiments, name: str) -> bytes:
    tallies = experiments.by_name[name]
    return pack(
        _Header(
            name,
            tallies.digest,
            tallies.last_ms,
            _packed(tallies.arms),
            _packed_strata(tallies.arms),
            tallies.began_ms,
            tallies.users_since_ms,
            tallies.missed,
        )
    )


def _packed_strata(arms: Mapping[str, Arm]) -> list[tuple[str, str, bytes]]:
    return [
        (variant, segment, pack_integers(part.T))
        for variant, arm in arms.items()
        for segment, part in arm.strata.items()
    ]


def _packed(arms: Mapping[str, Arm]) -> list[_Arm]:
    return [
        _Arm(
            variant,
            arm.without_unit,
            pack_integers(arm.tallies.T),
            pack_integers(arm.credits.T) if arm.credits.any() else b"",
            arm.hours.tolist(),
            arm.beyond_cap,
            (_packed_busiest(arm.busiest), _packed_busiest(arm.busiest_today)),
        )
        for variant, arm in arms.items()
    ]


def _arms(variants: Iterable[_Arm], strata: Iterable[tuple[str, str, bytes]]) -> dict[str, Arm]:
    found = {}
    for one in variants:
        hours = np.array(one.hours, np.int64)
        arm = found[one.variant] = Arm(_by_bucket(one.tallies), one.without_unit, hours=hours)
        arm.beyond_cap = one.beyond_cap
        arm.busiest, arm.busiest_today = map(_busiest, one.busiest)
        if one.credits:
            arm.credits = _by_bucket(one.credits)
    for variant, segment, tallies in strata:
        found[variant].strata[segment] = _by_bucket(tallies)
    return found


def _packed_busiest(busiest: Busiest) -> bytes:
    columns = (busiest.units.view(np.int64), busiest.credits, busiest.impressions)
    return pack_integers(np.stack(columns))


def _busiest(packed: bytes) -> Busiest:
    units, credits, impressions = unpack_integers(packed).reshape(3, -1)
    return Busiest(units.view(np.uint64), credits, impressions)


def _by_bucket(packed: bytes) -> Integers:
    return np.ascontiguousarray(unpack_integers(packed).reshape(-1, BUCKETS).T)
