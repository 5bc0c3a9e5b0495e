"""The role that commits: batches of records from a source to commits in a store; it knows
neither Kafka nor Redis, only their ports.
"""

from . import batch, process_memory, recovery
from .batch import TAKEN_BACK, DeadLetter, Records, RefusedParts, idle_mark
from .dated_files import (
    NO_JUDGEMENTS,
    NOT_READ_YET,
    FileWaits,
    WatchedDirectory,
    classes_use,
    judgements_use,
)
from .dead_letters import (
    ADVICE,
    DETAIL_CHARACTERS,
    SHORTENED_BYTES,
    DeadLetterTopic,
    RefusedRecordsLog,
    headers_of,
)
from .lane_opening import Beginning, OwnedLane
from .lanes_advice import JOIN_US, MUCH_OF_A_CORE, cores_of, meeting_advice, meeting_lanes
from .ownership import Ownership
from .pacing import (
    MAX_BATCH_BYTES,
    MAX_BATCH_S,
    MAX_CHUNK_RECORDS,
    MAX_CHUNK_S,
    MIN_BATCH_RECORDS,
    MIN_CHUNK_RECORDS,
    Cost,
    PollCost,
    is_backlog,
    next_batch_size,
    next_chunk_size,
)
from .process_memory import (
    MIB,
    TRIM_AFTER_RECORDS,
    IdleTrim,
    MemoryBound,
    bound_message,
    bound_of,
    configure_allocator,
    container_bytes,
    is_bound_met,
    resident_bytes,
    trim_heap,
)
from .recovery import Ports, Process, rebuilt_from_ms
from .refill_window import (
    Needed,
    Retention,
    rebuilt_ms,
    shortfalls,
)
from .rekeying import MOST_BYTES, Message, SourceRun, SourceState, Targets, state_in
from .reporting import report_mapped
from .schema_waits import MANY, SchemaWaits, schema_names
from .silent_topics import (
    silence_text,
    silent_topics,
    unread_reasons,
    waited_for_text,
)
from .source import (
    Batch,
    LaneLost,
    LogChanged,
    LogReplaced,
    LogRewritten,
    OffsetBeyondEnd,
    PartitionStatus,
    Source,
)
from .stall_watch import StallWatch
from .stalls import is_suspect, is_to_pass_over, next_mark, one_by_one
from .worker import Pace, Worker

__all__ = (
    "ADVICE",
    "Batch",
    "batch",
    "Beginning",
    "bound_message",
    "bound_of",
    "classes_use",
    "configure_allocator",
    "container_bytes",
    "Cost",
    "DeadLetter",
    "DeadLetterTopic",
    "DETAIL_CHARACTERS",
    "FileWaits",
    "headers_of",
    "idle_mark",
    "IdleTrim",
    "is_backlog",
    "is_bound_met",
    "is_suspect",
    "is_to_pass_over",
    "judgements_use",
    "LaneLost",
    "LogChanged",
    "LogReplaced",
    "LogRewritten",
    "MANY",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_S",
    "MAX_CHUNK_RECORDS",
    "MAX_CHUNK_S",
    "process_memory",
    "MemoryBound",
    "MIB",
    "MIN_BATCH_RECORDS",
    "MIN_CHUNK_RECORDS",
    "JOIN_US",
    "MUCH_OF_A_CORE",
    "cores_of",
    "meeting_advice",
    "meeting_lanes",
    "schema_names",
    "Needed",
    "next_batch_size",
    "next_chunk_size",
    "next_mark",
    "NO_JUDGEMENTS",
    "NOT_READ_YET",
    "OffsetBeyondEnd",
    "one_by_one",
    "OwnedLane",
    "Ownership",
    "Pace",
    "PartitionStatus",
    "PollCost",
    "Ports",
    "Process",
    "rebuilt_from_ms",
    "rebuilt_ms",
    "Records",
    "RefusedParts",
    "recovery",
    "RefusedRecordsLog",
    "report_mapped",
    "resident_bytes",
    "Retention",
    "SchemaWaits",
    "SHORTENED_BYTES",
    "shortfalls",
    "silence_text",
    "silent_topics",
    "Source",
    "StallWatch",
    "TAKEN_BACK",
    "TRIM_AFTER_RECORDS",
    "trim_heap",
    "unread_reasons",
    "waited_for_text",
    "WatchedDirectory",
    "Worker",
    "Message",
    "MOST_BYTES",
    "SourceRun",
    "SourceState",
    "Targets",
    "state_in",
)
