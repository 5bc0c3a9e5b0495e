"""Recorded files as a source: lines, their events in the order of time, and what is refused."""

from . import line_files, recorded_source, time_order
from .keys import plain_keys
from .line_files import (
    NO_STAMP,
    LineDecoder,
    Lines,
    RecordedRecord,
    UnknownTopic,
    file_and_line,
    line_decoder,
    lines_of,
    most_line_bytes,
    read_lines,
    record_of,
    without_mark,
)
from .recorded_source import FileEvents, file_lane
from .refusals import SAMPLES, IgnoredKinds, Refusals, Refused, explained, guess, refused_line
from .time_order import NoRoom, Ordered, OrderedRecords, TimeOrder

__all__ = (
    "explained",
    "file_and_line",
    "file_lane",
    "FileEvents",
    "guess",
    "IgnoredKinds",
    "line_decoder",
    "line_files",
    "LineDecoder",
    "Lines",
    "lines_of",
    "most_line_bytes",
    "NO_STAMP",
    "NoRoom",
    "Ordered",
    "OrderedRecords",
    "plain_keys",
    "read_lines",
    "record_of",
    "recorded_source",
    "RecordedRecord",
    "Refusals",
    "Refused",
    "refused_line",
    "SAMPLES",
    "time_order",
    "TimeOrder",
    "UnknownTopic",
    "without_mark",
)
