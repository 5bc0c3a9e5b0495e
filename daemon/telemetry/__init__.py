"""What a process reports of itself: the table of Prometheus families, the process's own series
and the log; no scores and no decisions.
"""

from . import logs
from .families import FAMILIES, Family
from .kafka_faults import ADVICE, KafkaFault, NoteFault, ignore_fault
from .logs import LOG_AGAIN_AFTER_S, REPEAT_AFTER_S, RateLimit, RetryNoise, configure
from .process import (
    BATCH_BUCKETS_S,
    COMMIT_OUTCOMES,
    EVICTS_ANY_KEY,
    LongestStall,
    ProcessStatus,
    Telemetry,
    watch_stalls,
)
from .tls_faults import Mismatch, causes, tls_mismatch
from .tracing import is_asked_for, off, unsupported

__all__ = (
    "ADVICE",
    "BATCH_BUCKETS_S",
    "causes",
    "COMMIT_OUTCOMES",
    "configure",
    "EVICTS_ANY_KEY",
    "FAMILIES",
    "Family",
    "ignore_fault",
    "is_asked_for",
    "KafkaFault",
    "LOG_AGAIN_AFTER_S",
    "logs",
    "LongestStall",
    "Mismatch",
    "NoteFault",
    "off",
    "ProcessStatus",
    "RateLimit",
    "REPEAT_AFTER_S",
    "RetryNoise",
    "Telemetry",
    "tls_mismatch",
    "unsupported",
    "watch_stalls",
)
