"""What a process reports of itself: the table of Prometheus families, the process's own series
and the log; no scores and no decisions.
"""

from . import families, logs, process_families, score_families
from .families import BASELINE, BY_NAME, FAMILIES, RECENT, PeriodFamilies
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
from .process_families import SCORE, Family
from .score_families import JUDGED_BASELINE, JUDGED_RECENT, JudgedPeriod

__all__ = (
    "ADVICE",
    "BASELINE",
    "BATCH_BUCKETS_S",
    "BY_NAME",
    "COMMIT_OUTCOMES",
    "configure",
    "EVICTS_ANY_KEY",
    "FAMILIES",
    "families",
    "Family",
    "ignore_fault",
    "JUDGED_BASELINE",
    "JUDGED_RECENT",
    "JudgedPeriod",
    "KafkaFault",
    "LOG_AGAIN_AFTER_S",
    "logs",
    "LongestStall",
    "NoteFault",
    "PeriodFamilies",
    "process_families",
    "ProcessStatus",
    "RateLimit",
    "RECENT",
    "REPEAT_AFTER_S",
    "RetryNoise",
    "SCORE",
    "score_families",
    "Telemetry",
    "watch_stalls",
)
