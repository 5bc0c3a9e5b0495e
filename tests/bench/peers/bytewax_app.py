"""The peers' job in bytewax: one worker, its own Kafka source and windows, no recovery store."""

import os
from datetime import datetime, timedelta, timezone
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as windows
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink
from job import PANE_S, Progress, decode, number_of, segment_of

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
progress = Progress()


def read(message: KafkaSourceMessage[Any, Any]) -> tuple[str, tuple[datetime, float]]:
    """Segment, time and number of one record."""
    progress.note()
    event = decode(message.value)
    time = datetime.fromtimestamp(event["timestamp"] / 1000, timezone.utc)
    return segment_of(event), (time, number_of(event))


def add(state: tuple[float, int], value: tuple[datetime, float]) -> tuple[float, int]:
    """The state with one more number."""
    return state[0] + value[1], state[1] + 1


def merge(one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
    """The state of two windows together."""
    return one[0] + other[0], one[1] + other[1]


source = KafkaSource([os.environ["BENCH_BROKER"]], [os.environ["BENCH_TOPIC"]])
clock = windows.EventClock(lambda value: value[0], wait_for_system_duration=timedelta(seconds=60))
minutes = windows.TumblingWindower(length=timedelta(seconds=PANE_S), align_to=START)
flow = Dataflow("average")
numbers = op.map("read", op.input("kafka", flow, source), read)
sums = windows.fold_window(
    "sums", numbers, clock, minutes, lambda: (0.0, 0), add, merge, ordered=False
)
op.output("means", sums.down, TestingSink([]))
