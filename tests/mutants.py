"""`make mutants`: plants faults in the product one by one, and shows which tests find each.

    python -m tests.mutants [--jobs N] [part of a name …]

A mutant is a text of the product and what stands there instead. The text says where: it stands
exactly once in `daemon/` and `metrics/`, whatever its file is called. Each is planted in a copy of
the tree, and the named tests run there as `make test` runs them, up to the first failure. A mutant
that no test finds is a rule that no test holds.
"""

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.targets import MARKS

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("daemon", "metrics")
SUFFIXES: Final = (".py", ".lua")
MOST_S: Final = 600.0
"""Tests that take longer are stalled by the fault, and have so found it."""
FAILED: Final = 1
INTERRUPTED: Final = 2
"""pytest's exit code where a module cannot be imported any more."""


class Mutant(NamedTuple):
    """A fault, and the tests that are to find it: those that find it soonest first."""

    name: str
    text: str
    instead: str
    tests: str


RULES: Final = "tests/daemon/attribution/test_join_rules.py tests/daemon/test_equality.py"
TOUCH: Final = "tests/daemon/attribution/test_last_touch.py tests/daemon/test_equality.py"
VECTORS: Final = "tests/daemon/attribution/test_vectorized.py tests/daemon/test_equality.py"
WATERMARKS: Final = "tests/daemon/lane/test_watermarks.py tests/daemon/test_equality.py"
CHAIN: Final = "tests/daemon/test_rekeyed_equality.py tests/daemon/lane/test_chain.py"
SETTLING: Final = "tests/daemon/lane/test_settling.py tests/daemon/test_equality.py"
PANES: Final = "tests/daemon/test_panes.py tests/daemon/test_equality.py"
STORE: Final = "tests/services/test_redis_store.py tests/services/test_damage.py"
COMMIT: Final = "tests/daemon/storage/test_commit.py tests/daemon/test_equality.py"
WORKER: Final = "tests/daemon/worker/test_worker.py tests/daemon/worker"
METRICS: Final = "tests/metrics"
SNAPSHOT: Final = "tests/daemon/views/test_snapshot.py tests/daemon/exporter"
COUNTERS: Final = "tests/daemon/views/test_counters.py tests/daemon/exporter"
CHANGES: Final = "tests/daemon/changes"

OF_THE_JOIN: Final = (
    Mutant(
        "touch: a list is asked that met a watermark at the end of the wait",
        "if shown.met_ms[at] >= before_ms or",
        "if shown.met_ms[at] > before_ms or",
        TOUCH,
    ),
    Mutant(
        "touch: so is an item of a later page",
        "if item_met_ms >= before_ms:",
        "if item_met_ms > before_ms:",
        TOUCH,
    ),
    Mutant(
        "touch: of one time the least id wins",
        "reverse=is_before",
        "reverse=not is_before",
        TOUCH,
    ),
    Mutant(
        "touch: a new owner decides again what was decided",
        "lane.waiting.take_held(watermark - (lane.plan.touch_ms or 0))",
        "lane.waiting.take_held(0)",
        "tests/daemon/test_equality.py",
    ),
    Mutant(
        "join: an impression is late one watermark later",
        "lane.plan.timing.closes_at(event.time_ms) <= met_ms",
        "lane.plan.timing.closes_at(event.time_ms) < met_ms",
        RULES,
    ),
    Mutant(
        "join: an impression is open one watermark longer",
        "return watermark is None or lane.plan.timing.closes_at(time_ms) > watermark",
        "return watermark is None or lane.plan.timing.closes_at(time_ms) >= watermark",
        RULES,
    ),
    Mutant(
        "join: feedback at the end of the window is out of it",
        "if event.time_ms > shown_ms + lane.plan.timing.attribution_ms:",
        "if event.time_ms >= shown_ms + lane.plan.timing.attribution_ms:",
        RULES,
    ),
    Mutant(
        "join: feedback is late one watermark later",
        "lane.plan.timing.expires_at(event.time_ms) <= watermark",
        "lane.plan.timing.expires_at(event.time_ms) < watermark",
        RULES,
    ),
    Mutant(
        "join: feedback 5 s before its impression is not its own",
        "if lane.open.times_ms[lane.open.index_of(slot)] <= time_ms + GRACE_MS:",
        "if lane.open.times_ms[lane.open.index_of(slot)] < time_ms + GRACE_MS:",
        RULES,
    ),
    Mutant(
        "join: of two grades of one time the first counts",
        "if explicit is not None and explicit >= (time_ms, grade):",
        "if explicit is not None and explicit[0] >= time_ms:",
        f"tests/daemon/attribution/test_gains.py {RULES}",
    ),
    Mutant(
        "join: a click raises an item that has a grade",
        "if explicit is not None or (present is not None and present >= gain):",
        "if present is not None and present >= gain:",
        f"tests/daemon/attribution/test_gains.py {RULES}",
    ),
    Mutant(
        "join: the longest delay is kept",
        "if before_ms is not None and before_ms <= delay_ms:",
        "if before_ms is not None and before_ms >= delay_ms:",
        f"tests/daemon/attribution/test_gains.py {RULES}",
    ),
    Mutant(
        "join: waiting feedback joins the next impression of its id",
        "if feedback.bound_ms is not None and feedback.bound_ms != shown_ms:",
        "if feedback.bound_ms is not None and feedback.bound_ms > shown_ms:",
        RULES,
    ),
    Mutant(
        "join: waiting feedback expires one watermark later",
        "lane.waiting.take_older(watermark - timing.expires_at(0))",
        "lane.waiting.take_older(watermark - timing.expires_at(1))",
        RULES,
    ),
    Mutant(
        "join: the first of equal items gets the feedback whatever its rank",
        "if rank is not None and 1 <= rank <= len(items) and items[rank - 1] == item:",
        "if rank == 1 and items and items[rank - 1] == item:",
        RULES,
    ),
    Mutant(
        "join: feedback at the depth is beyond it",
        "elif feedback.rank is not None and feedback.rank > lane.plan.depth:",
        "elif feedback.rank is not None and feedback.rank >= lane.plan.depth:",
        RULES,
    ),
    Mutant(
        "join: a page right behind the list leaves a gap",
        "if before > len(items):",
        "if before >= len(items):",
        f"tests/daemon/attribution/test_later_pages.py {RULES}",
    ),
    Mutant(
        "join: a page is shown before the pages above it",
        "met_ms = max((met_ms, *lane.open.touches.met_ms.get(slot, {}).values()))",
        "pass",
        "tests/daemon/test_equality.py",
    ),
    Mutant(
        "join: a page is judged in time after one that was late",
        "met_ms = max(watermark_ms, lane.open.late.get(slot, watermark_ms))",
        "met_ms = watermark_ms",
        "tests/daemon/test_judged_equality.py",
    ),
    Mutant(
        "join: a page that waits for one before it is of any impression of its id",
        "if page.bound_ms not in (None, shown_ms):",
        "if shown_ms is None:",
        "tests/daemon/attribution/test_later_pages.py",
    ),
    Mutant(
        "join of batches: feedback 5 s before its impression is left out",
        "in_time &= times_ms >= shown_ms - GRACE_MS",
        "in_time &= times_ms >= shown_ms - 2 * GRACE_MS",
        VECTORS,
    ),
    Mutant(
        "join of batches: feedback after the window joins",
        "in_time &= times_ms <= shown_ms + timing.attribution_ms",
        "in_time &= times_ms <= shown_ms + timing.attribution_ms + timing.lateness_ms",
        VECTORS,
    ),
    Mutant(
        "join of batches: closed impressions take feedback",
        "in_time &= timing.closes_at(shown_ms) > watermarks_ms",
        "in_time &= timing.closes_at(shown_ms) >= watermarks_ms",
        VECTORS,
    ),
    Mutant(
        "join of batches: a list of another id with the same hash",
        "return np.where(same_id, ranks0, NOT_FOUND)",
        "return np.where(same_id | True, ranks0, NOT_FOUND)",
        VECTORS,
    ),
    Mutant(
        "watermark: a jump of just JUMP_MS must be confirmed",
        "    if time_ms > watermark + JUMP_MS:\n        confirmed_ms",
        "    if time_ms >= watermark + JUMP_MS:\n        confirmed_ms",
        WATERMARKS,
    ),
    Mutant(
        "watermark: votes that are even confirm nothing",
        "self.votes < self.near // 2",
        "self.votes <= self.near // 2",
        WATERMARKS,
    ),
    Mutant(
        "watermark: ids over just a minute confirm nothing",
        "greatest_ms - least_ms >= CONFIRMED_OVER_MS",
        "greatest_ms - least_ms > CONFIRMED_OVER_MS",
        WATERMARKS,
    ),
    Mutant(
        "lift: a clock that is ahead lifts all others",
        "to_ms = min(greatest, clock_ms) - lateness_ms",
        "to_ms = greatest - lateness_ms",
        WATERMARKS,
    ),
    Mutant(
        "lift: as far as the greatest watermark",
        "to_ms = min(greatest, clock_ms) - lateness_ms",
        "to_ms = min(greatest, clock_ms)",
        WATERMARKS,
    ),
    Mutant(
        "lift: an event at it is not behind it",
        "run.times_ms <= lift_ms",
        "run.times_ms < lift_ms",
        "tests/daemon/test_equality.py",
    ),
    Mutant(
        "admission: one value more than the limit",
        "if len(self.seen[grouping]) >= self.plan.admitted_values:",
        "if len(self.seen[grouping]) > self.plan.admitted_values:",
        "tests/daemon/lane/test_segment_admission.py tests/daemon/test_equality.py",
    ),
)

OF_PANES: Final = (
    Mutant(
        "panes: an impression closes with the start of its pane",
        "return pane_start(time_ms, self.base_ms) + self.base_ms + self.settle_ms",
        "return pane_start(time_ms, self.base_ms) + self.settle_ms",
        PANES,
    ),
    Mutant(
        "panes: too few are kept for the settled view",
        "return 2 * span.length_ms + span.pane_ms + self.settle_ms",
        "return span.length_ms + span.pane_ms",
        PANES,
    ),
    Mutant(
        "panes: the least pane is rounded down",
        "each = -(-base_panes // PANES_PER_WINDOW)",
        "each = max(base_panes // PANES_PER_WINDOW, 1)",
        PANES,
    ),
    Mutant(
        "settling: the pane that still gathers settles",
        "if not window and start < before and (since",
        "if not window and start <= before and (since",
        SETTLING,
    ),
    Mutant(
        "settling: a pane is added to the totals again",
        "(since is None or start >= since):",
        "(since is None or start >= 0):",
        SETTLING,
    ),
    Mutant(
        "settling: impressions stay open too long",
        "closing = lane.open.slots_before(before)",
        "closing = lane.open.slots_before(before - lane.plan.timing.base_ms)",
        SETTLING,
    ),
    Mutant(
        "settling: one hour too few is kept",
        "lane.drop_hours(kept_rows.kept_from(before, lane.plan))",
        "lane.drop_hours(kept_rows.kept_from(before, lane.plan) + 1)",
        SETTLING,
    ),
    Mutant(
        "rows: equal changes count once",
        "differences *= counts[:, np.newaxis]",
        "differences *= np.minimum(counts, 1)[:, np.newaxis]",
        "tests/daemon/lane/test_scoring.py tests/daemon/test_equality.py",
    ),
    Mutant(
        "rows: a longer window takes panes that do not divide its own",
        "if span.pane_ms % each.pane_ms == 0)",
        "if span.pane_ms >= each.pane_ms)",
        "tests/daemon/lane/test_scoring.py tests/daemon/test_equality.py",
    ),
    Mutant(
        "experiments: an excluded stretch includes its end",
        'np.searchsorted(edges, times_ms, side="right") % 2 == 1',
        'np.searchsorted(edges, times_ms, side="left") % 2 == 1',
        "tests/daemon/experiments tests/daemon/test_experiments_equality.py",
    ),
    Mutant(
        "experiments: impressions without a unit count in an arm",
        "selected = np.flatnonzero((share.arms >= 0) & (share.units != NO_UNIT))",
        "selected = np.flatnonzero(share.arms >= 0)",
        "tests/daemon/test_experiments_equality.py",
    ),
    Mutant(
        "experiments: arms of another configuration are merged",
        "counted = [of_lane for of_lane in tallies if of_lane.digest == spec.digest]",
        "counted = [*tallies]",
        "tests/daemon/experiments tests/daemon/storage/test_experiments.py",
    ),
    Mutant(
        "experiments: days of other shares are one period",
        "return share_deviate(*counts) >= MOVED",
        "return False",
        "tests/daemon/experiments",
    ),
    Mutant(
        "experiments: users of other planned shares are kept",
        "arm.users, arm.homes = np.zeros(0, np.uint64), {}",
        "pass",
        "tests/daemon/storage/test_experiments.py",
    ),
)

OF_THE_PROTOCOL: Final = (
    Mutant(
        "stage: a lane takes what it has taken",
        "if of.place <= last:",
        "if of.place < last:",
        CHAIN,
    ),
    Mutant(
        "stage: a lane takes what comes before the message that it names",
        "return EARLY if of.prev > last else TAKEN",
        "return TAKEN",
        CHAIN,
    ),
    Mutant(
        "commit.lua: another owner may commit",
        "if stored[1] ~= token then return 'lost' end",
        "",
        STORE,
    ),
    Mutant(
        "commit.lua: a repeated commit is lost",
        "if stored[2] == following then return 'already' end",
        "",
        STORE,
    ),
    Mutant(
        "commit.lua: a commit on a rolled-back lane is taken",
        "if stored[2] ~= sequence then return 'lost' end",
        "",
        STORE,
    ),
    Mutant(
        "commit.lua: a missing part is not noticed",
        "if present ~= staged then return 'lost' end",
        "",
        STORE,
    ),
    Mutant(
        "commit.lua: a staged call stays",
        "if call then redis.call('UNLINK', call) end\n",
        "",
        STORE,
    ),
    Mutant(
        "commit.lua: published values expire",
        "    redis.call('PERSIST', key)\n",
        "",
        STORE,
    ),
    Mutant(
        "commit.lua: the mark of the commit is counted",
        "redis.call('ZCARD', changes) - 1",
        "redis.call('ZCARD', changes)",
        STORE,
    ),
    Mutant(
        "commit.lua: the mark of the commit stays",
        "redis.call('ZREM', changes, mark)\nreturn 'applied'",
        "return 'applied'",
        STORE,
    ),
    Mutant(
        "commit.lua: a damaged lane is written",
        "elseif keys_there ~= tonumber(stored[3]) or names_there ~= tonumber(stored[4]) then",
        "elseif keys_there ~= tonumber(stored[3]) then",
        STORE,
    ),
    Mutant(
        "commit.lua: unlinked keys stay listed",
        "  redis.call('ZREM', changes, unpack(keys))\n",
        "",
        STORE,
    ),
    Mutant(
        "claim.lua: staged parts of a former owner stay",
        "while redis.call('UNLINK', stage .. number) == 1 do number = number + 1 end",
        "",
        STORE,
    ),
    Mutant(
        "claim.lua: a lane without its head begins anew",
        "if ARGV[3] == '1' or redis.call('EXISTS', head, names, changes, admitted) > 0 then",
        "if ARGV[3] == '1' then",
        STORE,
    ),
    Mutant(
        "claim.lua: the token of the former owner stays",
        "redis.call('HSET', head, 'token', ARGV[1])\nreturn",
        "redis.call('HSETNX', head, 'token', ARGV[1])\nreturn",
        STORE,
    ),
    Mutant(
        "load.lua: a lane is loaded by a former owner",
        "if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return false end\nif #KEYS == 3 then",
        "if stored[2] ~= ARGV[2] then return false end\nif #KEYS == 3 then",
        STORE,
    ),
    Mutant(
        "touch.lua: an owner that lost the lane does not learn it",
        "if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 0 end\nif ARGV[3] ~= ''",
        "if stored[2] ~= ARGV[2] then return 0 end\nif ARGV[3] ~= ''",
        STORE,
    ),
    Mutant(
        "touch.lua: the sequence is not compared",
        "if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 0 end\nif ARGV[3] ~= ''",
        "if stored[1] ~= ARGV[1] then return 0 end\nif ARGV[3] ~= ''",
        STORE,
    ),
    Mutant(
        "read.lua: a reader keeps what was rolled back",
        "ARGV[3] == '' or tonumber(stored[2]) < tonumber(ARGV[3])",
        "ARGV[3] == ''",
        STORE,
    ),
    Mutant(
        "read.lua: a read stops within a commit",
        "if bytes >= tonumber(ARGV[6]) and listed[i + 1] ~= upto then",
        "if bytes >= tonumber(ARGV[6]) then",
        STORE,
    ),
    Mutant(
        "read.lua: a lane that is not whole is read",
        "if short then return short end",
        "",
        STORE,
    ),
    Mutant(
        "sweep.lua: listed keys are swept",
        "if not redis.call('ZSCORE', KEYS[2], ARGV[i - 1]) then",
        "if ARGV[i - 1] then",
        STORE,
    ),
    Mutant(
        "layout.lua: an earlier layout returns at once",
        "if is_new or not last or now - tonumber(last) > number then",
        "if is_new or not last or now - tonumber(last) >= 0 then",
        "tests/services/test_layout_registry.py",
    ),
    Mutant(
        "commit: blocks are kept after they expired",
        "and block.entry.expires_ms <= watermark",
        "and block.entry.expires_ms < watermark - 3_600_000",
        COMMIT,
    ),
    Mutant(
        "commit: slots of earlier batches are forgotten",
        "slots=earlier[earlier < claimed.next_slot],",
        "slots=earlier[:0],",
        COMMIT,
    ),
    Mutant(
        "commit: names are written from the first one on",
        "claimed.names = len(lane.segments.names)\n",
        "claimed.names = len(lane.segments.names) - 1\n",
        COMMIT,
    ),
    Mutant(
        "commit: the sequence stands still",
        "claimed.sequence = commit.sequence + 1",
        "claimed.sequence = commit.sequence",
        COMMIT,
    ),
    Mutant(
        "worker: dead letters are not awaited before the commit",
        "await self._publish(lane, letters)",
        "asyncio.ensure_future(self._publish(lane, letters))",
        WORKER,
    ),
    Mutant(
        "worker: a lost lane is claimed before the group confirms",
        "attempt.confirm_first = attempt.confirm_first or confirm_first",
        "attempt.confirm_first = attempt.confirm_first",
        WORKER,
    ),
    Mutant(
        "worker: an idle owner that lost its lane keeps it",
        "        if not is_owner:\n            self._telemetry",
        "        if is_owner is None:\n            self._telemetry",
        WORKER,
    ),
    Mutant(
        "worker: an idle mark ahead of the clock is not taken back",
        "if stored_ms is not None and stored_ms > clock_ms + CLOCKS_DIFFER_MS:",
        "if stored_ms is not None and stored_ms > clock_ms + 1000 * CLOCKS_DIFFER_MS:",
        "tests/daemon/worker/test_idle_marks.py",
    ),
)

OF_METRICS: Final = (
    Mutant(
        "DCG: log2 of the rank", "return math.log2(rank + 1)", "return math.log2(rank)", METRICS
    ),
    Mutant(
        "DCG: the gain is 2^g",
        "values: Floats = np.exp2(gains)\n    values -= 1.0",
        "values: Floats = np.exp2(gains)",
        METRICS,
    ),
    Mutant(
        "nDCG: the ideal order ascends",
        "np.asfortranarray(np.sort(gains, axis=1)[:, ::-1])",
        "np.asfortranarray(np.sort(gains, axis=1))",
        METRICS,
    ),
    Mutant(
        "nDCG: 0 where the ideal is 0",
        "return ratio(actual, ideal, np.nan)",
        "return ratio(actual, ideal, 0.0)",
        METRICS,
    ),
    Mutant(
        "ERR: who stops reads on",
        "        reached -= stopping\n",
        "",
        METRICS,
    ),
    Mutant(
        "RR: one rank too deep",
        "values: Floats = np.append(1.0 / ranks, 0.0)[_items_before_first(relevant, k)]",
        "values: Floats = np.append(1.0 / (ranks + 1), 0.0)[_items_before_first(relevant, k)]",
        METRICS,
    ),
    Mutant(
        "AP: divided by what was returned",
        "return ratio(precision_sum(relevant, k), known_relevant, 0.0)",
        "return ratio(precision_sum(relevant, k), np.minimum(known_relevant, k), 0.0)",
        METRICS,
    ),
    Mutant(
        "P: divided by the length",
        "return hits(relevant, k) / k",
        "return hits(relevant, k) / min(k, relevant.shape[1])",
        METRICS,
    ),
    Mutant(
        "Rprec: one rank too many",
        "relevant[:, column] & (known_relevant > column)",
        "relevant[:, column] & (known_relevant >= column)",
        METRICS,
    ),
    Mutant(
        "Bpref: the item itself is above itself",
        "penalty = ratio(np.minimum(above, cap), divisor, 0.0)",
        "penalty = ratio(np.minimum(above + 1, cap), divisor, 0.0)",
        METRICS,
    ),
    Mutant(
        "IPS: weights are not clipped",
        "return np.minimum(self.inverse(depth), clip)",
        "return self.inverse(depth)",
        METRICS,
    ),
    Mutant(
        "abandonment: an empty list was abandoned",
        "return np.where(lengths > 0, abandoned, np.nan)",
        "return abandoned",
        METRICS,
    ),
    Mutant(
        "interleaving: the lead of the control wins",
        "lead += gains[:, column] * teams[:, column]",
        "lead -= gains[:, column] * teams[:, column]",
        METRICS,
    ),
)

OF_STATEMENTS: Final = (
    Mutant(
        "buckets: no correction for the number of buckets",
        "correction = np.where(filled > 1, filled / (filled - 1.0), np.nan)",
        "correction = np.where(filled > 1, 1.0, np.nan)",
        METRICS,
    ),
    Mutant(
        "buckets: a constant score has a variance",
        "differences[np.abs(differences) <= _ROUNDING * np.abs(sums)] = 0.0",
        "differences[np.abs(differences) < 0.0] = 0.0",
        METRICS,
    ),
    Mutant(
        "sequences: the boundary of a single look",
        "evidence = math.log1p(information) - 2.0 * math.log(alpha)",
        "evidence = -2.0 * math.log(alpha)",
        METRICS,
    ),
    Mutant(
        "sequences: the e-value without its denominator",
        "(2.0 * (information + 1.0)) - 0.5 * math.log1p(information)",
        "(2.0 * (information + 1.0))",
        METRICS,
    ),
    Mutant(
        "sequences: the one-sided rate has the two-sided alpha",
        "return mixture_rate(self.planned_impressions, 2.0 * self.alpha)",
        "return mixture_rate(self.planned_impressions, self.alpha)",
        METRICS,
    ),
    Mutant(
        "inference: too few buckets make a statement",
        "if buckets < MINIMUM_BUCKETS:",
        "if buckets < MINIMUM_BUCKETS / 2:",
        METRICS,
    ),
    Mutant(
        "inference: a metric that is better lower is judged as if higher",
        'return "better" if (interval.lower > 0.0) == (direction == "up") else "worse"',
        'return "better" if interval.lower > 0.0 else "worse"',
        METRICS,
    ),
    Mutant(
        "pairs: rare outcomes are trusted",
        "raised = few & (least > arm.variance)",
        "raised = few & (least > 2 * arm.variance)",
        METRICS,
    ),
    Mutant(
        "differences: variances of arms are subtracted",
        "treatment.variance + control.variance,\n        treatment.n + control.n,\n        np.",
        "treatment.variance - control.variance,\n        treatment.n + control.n,\n        np.",
        METRICS,
    ),
    Mutant(
        "relative: the control is taken as known",
        "noise = reach * reach * control_variance",
        "noise = 0.0 * reach * control_variance",
        METRICS,
    ),
    Mutant(
        "sample ratio: the planned shares are all equal",
        "prior = concentration * share",
        "prior = concentration / len(counts)",
        METRICS,
    ),
    Mutant(
        "degrees of freedom: those of one arm",
        "each = np.square(first) / first_degrees + np.square(second) / second_degrees",
        "each = np.square(first) / first_degrees",
        METRICS,
    ),
    Mutant(
        "falls: the drift does not grow with time",
        "return np.asarray(np.minimum(1 + apart_ms / HOUR_MS, MOST_DRIFT))",
        "return np.asarray(np.minimum(1 + 0 * apart_ms / HOUR_MS, MOST_DRIFT))",
        CHANGES,
    ),
    Mutant(
        "falls: many series have the threshold of a few",
        "return -(LOW_Z + max(log(max(series, 1) / USUAL_SERIES), 0.0) / 6)",
        "return -LOW_Z",
        CHANGES,
    ),
    Mutant(
        "falls: few impressions are enough",
        "red = (z < limit) & (found.loss > LEAST_LOSS) & (found.scored >= LEAST_SCORED)",
        "red = (z < limit) & (found.loss > LEAST_LOSS)",
        CHANGES,
    ),
    Mutant(
        "falls: few impressions after a change tell its variance",
        "after_variance = np.maximum(after.variances, self.variances)",
        "after_variance = after.variances",
        CHANGES,
    ),
    Mutant(
        "falls: a rise has an onset",
        "ratio = np.where(numerator * directions < 0, ratio, 0.0)",
        "ratio = np.where(numerator * directions != 0, ratio, 0.0)",
        CHANGES,
    ),
    Mutant(
        "falls: half way up is recovered",
        "nearer = lost.amount < depth.amount / 2 - ERRORS * lost.least_error",
        "nearer = lost.amount < depth.amount / 2",
        CHANGES,
    ),
    Mutant(
        "evidence: the design effect is left out of shares",
        "variance = design_effect * (1 / counts[0] + 1 / counts[1]) * mean * (1 - mean)",
        "variance = (1 / counts[0] + 1 / counts[1]) * mean * (1 - mean)",
        f"{CHANGES}/test_patterns.py {CHANGES}/test_traffic_changes.py",
    ),
    Mutant(
        "traffic: the last hour tells a share alone",
        "is_confirmed = worse * six_hours.z(column, settings) > CLEAR_SIX_HOURS",
        "is_confirmed = is_clear",
        f"{CHANGES}/test_traffic_changes.py",
    ),
    Mutant(
        "traffic: one period stands for all",
        "sizes = self.now[:, _IMPRESSIONS], self.before[:, _IMPRESSIONS] * self.periods",
        "sizes = self.now[:, _IMPRESSIONS], self.before[:, _IMPRESSIONS]",
        f"{CHANGES}/test_traffic_changes.py",
    ),
    Mutant(
        "traffic: an hour with a time without feedback counts",
        "in shares[1:] if has_gap else shares:",
        "in shares:",
        f"{CHANGES}/test_traffic_changes.py tests/daemon/exporter/test_traffic_changes.py",
    ),
    Mutant(
        "traffic: what an open change tells is told again",
        "counts = (hour.now[:, _IMPRESSIONS] >= settings.smallest_sample) & ~are_told",
        "counts = hour.now[:, _IMPRESSIONS] >= settings.smallest_sample",
        f"{CHANGES}/test_traffic_changes.py",
    ),
    Mutant(
        "evidence: the shape of RR contains Success",
        "shape = _change(recent.rr, baseline.rr) - success",
        "shape = _change(recent.rr, baseline.rr)",
        CHANGES,
    ),
    Mutant(
        "evidence: drift of the mean over earlier periods",
        "return self.drift_ratio**2 * (1 + 1 / periods)",
        "return self.drift_ratio**2 / periods",
        CHANGES,
    ),
)

OF_VIEWS: Final = (
    Mutant(
        "view: as of the fastest lane",
        "return min(reached) if now_ms is None else min(*reached, now_ms)",
        "return max(reached) if now_ms is None else min(max(reached), now_ms)",
        SNAPSHOT,
    ),
    Mutant(
        "view: a lane without a time is ignored",
        "if not reached or len(reached) < len(times):",
        "if not reached:",
        SNAPSHOT,
    ),
    Mutant(
        "view: the settled one is live",
        "SETTLED: as_of_ms - plan.timing.settle_ms}",
        "SETTLED: as_of_ms}",
        SNAPSHOT,
    ),
    Mutant(
        "view: one pane too many",
        "return range(last - window.length_ms + window.pane_ms, last + 1, window.pane_ms)",
        "return range(last - window.length_ms, last + 1, window.pane_ms)",
        SNAPSHOT,
    ),
    Mutant(
        "view: dropped panes are shown as zeros",
        "return starts[0] < plan.timing.dropped_before(window, lane.watermark_ms)",
        "return starts[-1] < plan.timing.dropped_before(window, lane.watermark_ms)",
        SNAPSHOT,
    ),
    Mutant(
        "view: the time of a lane is its watermark",
        "return max((t for t in (self.watermark_ms, self.idle_ms) if t is not None), default=None)",
        "return self.watermark_ms",
        SNAPSHOT,
    ),
    Mutant(
        "view: the standard error of a sum",
        "pairs = np.where(several, counts * (counts - 1), np.nan)",
        "pairs = np.where(several, counts - 1, np.nan)",
        SNAPSHOT,
    ),
    Mutant(
        "view: a column that came later is shown as 0",
        "is_covered = coverage.windows[index] <= first_ms",
        "is_covered = True",
        f"tests/daemon/views/test_coverage.py {SNAPSHOT}",
    ),
    Mutant(
        "counters: a roll-back lowers them",
        "label: max(counts.get(label, 0), before.get(label, 0)) for label in {**before, **counts}",
        "label: counts.get(label, 0) for label in {**before, **counts}",
        COUNTERS,
    ),
    Mutant(
        "counters: a segment that joins leaves `other`",
        "base = kept.get(segment, total if before.begun else 0)",
        "base = kept.get(segment, 0)",
        COUNTERS,
    ),
    Mutant(
        "mirror: what a new owner did not list stays",
        "            self.rows.clear()\n        self.head",
        "        self.head",
        "tests/daemon/views/test_mirror.py tests/services/test_redis_mirror.py",
    ),
    Mutant(
        "mirror: the greatest watermark of the topics",
        "return min(known) if known and len(known) == len(marks) else None",
        "return max(known) if known and len(known) == len(marks) else None",
        "tests/daemon/views/test_mirror.py tests/daemon/exporter",
    ),
)

MUTANTS: Final = (
    *OF_THE_JOIN,
    *OF_PANES,
    *OF_THE_PROTOCOL,
    *OF_METRICS,
    *OF_STATEMENTS,
    *OF_VIEWS,
)


def product(root: Path) -> dict[Path, str]:
    """Path below `root` → text of each file of the product."""
    return {
        path.relative_to(root): path.read_text()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*"))
        if path.suffix in SUFFIXES
    }


def file_of(mutant: Mutant, texts: dict[Path, str]) -> Path:
    """The file that the mutant changes. Raises LookupError unless its text stands exactly once."""
    found = [path for path, text in texts.items() for _ in range(text.count(mutant.text))]
    if len(found) != 1:
        where = ", ".join(map(str, found)) or "nowhere"
        raise LookupError(f"{mutant.name}: the text must stand once, stands {where}: {mutant.text}")
    return found[0]


def misplaced(mutants: Sequence[Mutant], root: Path) -> list[str]:
    """What is wrong with the table: texts that do not stand exactly once, tests that are gone."""
    texts, wrong = product(root), []
    for mutant in mutants:
        try:
            file_of(mutant, texts)
        except LookupError as error:
            wrong.append(str(error))
        wrong += [
            f"{mutant.name}: no {test}"
            for test in mutant.tests.split()
            if not (root / test.partition("::")[0]).exists()
        ]
    return wrong


class Outcome(NamedTuple):
    """What the tests said of a mutant."""

    mutant: Mutant
    found: bool
    how: str
    seconds: float


class Tree:
    """A copy of the project in which mutants are planted one after the other."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        # What is installed refers to the working tree; these two come before it.
        packages = folder / "packages" / "relevanced"
        packages.mkdir(parents=True)
        for package in PACKAGES:
            (packages / package).symlink_to(self.root / package)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(packages.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.texts = product(self.root)

    def run(self, tests: Sequence[str]) -> tuple[int | None, str]:
        """The exit code of these tests in `make test`, None where they stalled; and what they
        printed."""
        marks = ["-m", MARKS["test"], "-p", "no:cacheprovider", "-q", "-x", "--tb=no"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *marks, *tests],
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=MOST_S)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with_servers = process.pid  # of the group that `start_new_session` made
            if process.poll() is None:
                os.killpg(with_servers, signal.SIGKILL)
                process.wait()
        return process.returncode, printed

    def imports_itself(self) -> bool:
        """Whether the tests of this tree run its own code."""
        code = "import relevanced.daemon.panes as m; print(m.__file__)"
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return Path(found.stdout.strip()).resolve().is_relative_to(self.root.resolve())

    def with_mutant(self, mutant: Mutant) -> Outcome:
        path = self.root / file_of(mutant, self.texts)
        before = path.read_text()
        path.write_text(before.replace(mutant.text, mutant.instead))
        started_s = time.monotonic()
        try:
            code, printed = self.run(list(dict.fromkeys(mutant.tests.split())))
        finally:
            path.write_text(before)
        if code not in (None, 0, FAILED, INTERRUPTED):
            raise RuntimeError(f"{mutant.name}: pytest ended with {code}:\n{printed}")
        failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        how = "stalled" if code is None else failed[0].split(" - ")[0] if failed else ""
        return Outcome(mutant, code != 0, how, time.monotonic() - started_s)


@contextmanager
def trees(count: int) -> Iterator["queue.SimpleQueue[Tree]"]:
    """Copies of the project."""
    made: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(count):
            made.put(Tree(Path(folder) / str(number)))
        yield made


def outcomes(mutants: Sequence[Mutant], jobs: int) -> Iterator[Outcome]:
    """Plant each, and say what the tests find. Raises RuntimeError where they fail without it."""
    with trees(jobs) as free, ThreadPoolExecutor(jobs) as threads:
        tree = free.get()
        if not tree.imports_itself():
            raise RuntimeError(f"tests in {tree.root} do not run the code of that folder")
        code, printed = tree.run(sorted({t for one in mutants for t in one.tests.split()}))
        if code:
            raise RuntimeError(f"the tests fail without a mutant:\n{printed}")
        free.put(tree)

        def of(mutant: Mutant) -> Outcome:
            own = free.get()
            try:
                return own.with_mutant(mutant)
            finally:
                free.put(own)

        yield from threads.map(of, mutants)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    given = parser.parse_args()
    mutants = [m for m in MUTANTS if not given.names or any(n in m.name for n in given.names)]
    if wrong := misplaced(mutants, ROOT):
        print("\n".join(wrong))
        return 2
    found = 0
    for one in outcomes(mutants, given.jobs):
        found += one.found
        verdict = "found" if one.found else "NOT FOUND"
        print(f"{verdict:9} {one.seconds:6.1f} s  {one.mutant.name}  {one.how}", flush=True)
    print(f"{found} of {len(mutants)} mutants were found")
    return 0 if found == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
