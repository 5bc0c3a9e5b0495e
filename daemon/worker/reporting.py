"""The gauges of a worker: its lanes, how far each partition is read, and what Kafka does not
answer.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from ..lane import JUMP_MS, Lane, lifted_ms, place_of, topic_of
from ..telemetry import Telemetry
from .lane_opening import OwnedLane
from .ownership import Ownership
from .source import PartitionStatus, Source

REPORT_EVERY_S: Final = 1.0
KAFKA: Final = "Kafka"


class Reporter:
    """Brings the gauges of this process up to date, at most once a second: a turn of a busy worker
    takes milliseconds, and a scrape reads them every 15 s or so."""

    def __init__(
        self,
        source: Source,
        ownership: Ownership,
        telemetry: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._clock = clock
        self._ownership = ownership
        self._telemetry = telemetry
        self._reported_s = 0.0
        self.kafka_faults: dict[str, str] = {}
        """What of Kafka cannot be read, with the reason: for readiness."""
        self.ahead: dict[str, float] = {}
        """topic[partition] → how many seconds its watermark is ahead of the clock, where that is
        more than an event may move it: for readiness."""

    def report(self) -> bool:
        """Set the gauges where that is due; returns whether it was."""
        now_s = time.monotonic()
        if now_s - self._reported_s < REPORT_EVERY_S:
            return False
        self._reported_s = now_s
        self._telemetry.owned_lanes.set(len(self._ownership.lanes))
        self.ahead = {}
        for number, owned in self._ownership.lanes.items():
            self._report_lane(number, owned)
        partitions = self._source.status()
        self.kafka_faults = _faults(partitions, self._source.obstacle)
        self._report_partitions(partitions)
        return True

    def _report_lane(self, number: int, owned: OwnedLane) -> None:
        telemetry, lane = self._telemetry, owned.claimed.lane
        telemetry.open_impressions.labels(str(number)).set(len(lane.open))
        telemetry.waiting_feedback.labels(str(number)).set(len(lane.waiting))
        lost_s = len(lane.lost_hours) * lane.plan.hour_ms / 1000
        telemetry.lost_history_s.labels(str(number)).set(lost_s)
        report_mapped(telemetry, lane)
        telemetry.split_ids.inc(lane.split_ids)
        lane.split_ids = 0
        if lane.chain is not None:
            for outcome, count in lane.chain.outcomes.items():
                telemetry.rekey_messages.labels(outcome).inc(count)
            lane.chain.outcomes.clear()
        lifted = (lifted_ms(m, lane.lifts.get(log)) != m for log, m in lane.watermarks.items())
        telemetry.lifted_partitions.labels(str(number)).set(sum(lifted))
        known = [watermark_ms for watermark_ms in lane.watermarks.values() if watermark_ms]
        of_stage = dict.fromkeys(lane.offsets, max(known, default=None)) if lane.chain else {}
        for log, watermark_ms in (of_stage | lane.watermarks).items():
            if watermark_ms is not None:
                topic, partition = place_of(number, log)
                telemetry.watermark_s.labels(topic, str(partition)).set(watermark_ms / 1000)
                ahead_s = max(watermark_ms / 1000 - self._clock(), 0.0)
                telemetry.watermark_ahead_s.labels(topic, str(partition)).set(ahead_s)
                if ahead_s > JUMP_MS / 1000:
                    self.ahead[f"{topic}[{partition}]"] = ahead_s

    def _report_partitions(self, partitions: Sequence[PartitionStatus]) -> None:
        telemetry = self._telemetry
        for partition in partitions:
            labels = (partition.topic, str(partition.partition))
            telemetry.partition_unreadable.labels(*labels).set(partition.fault is not None)
            if partition.lag_records is not None:
                telemetry.lag_records.labels(*labels).set(partition.lag_records)
        fetched_ms = [p.fetched_ms for p in partitions if p.fetched_ms is not None]
        if fetched_ms:
            # Of the partition that waits longest: one broker of many can be away.
            telemetry.last_poll_s.set(min(fetched_ms) / 1000)


def report_mapped(telemetry: Telemetry, lane: Lane) -> None:
    """Count what the mappings of a lane read since the last report."""
    for log, count in lane.mapped_records.items():
        telemetry.mapped_records.labels(topic_of(log)).inc(count)
        telemetry.mapped_slowly.labels(topic_of(log)).inc(lane.mapped_slowly[log])
    lane.mapped_records.clear()
    lane.mapped_slowly.clear()


def _faults(partitions: Sequence[PartitionStatus], obstacle: str | None) -> dict[str, str]:
    """Each partition that cannot be read, and the topics as such, with the reason."""
    faults = {f"{KAFKA}, {p.topic}[{p.partition}]": p.fault for p in partitions if p.fault}
    return faults if obstacle is None else faults | {KAFKA: obstacle}
