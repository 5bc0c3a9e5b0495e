"""Reads from Kafka and sends to it: the only room that imports the Kafka client; it keeps no state
of a lane but the next offsets, and knows nothing of events or metrics.
"""

from . import aiokafka_patches, codecs, member, resuming
from .aiokafka_patches import install_codecs
from .client import (
    FirstTimes,
    KafkaProducer,
    KafkaSettings,
    client_arguments,
    consumer_arguments,
    kafka_settings,
    numbers_in,
    stage_settings,
    topic_retention,
)
from .codecs import LIBRARIES, CorruptBlock, PythonSnappy, Snappy, TooLarge
from .group_redis import (
    GroupState,
    OneRedisAssignor,
    belong_together,
    group_state,
    other_redis,
    take_group,
)
from .lane_log import LaneLog, LaneLogs, LogSpan, changed_logs
from .partitions import (
    NO_TIMESTAMP,
    AbortedLog,
    AssignedLanes,
    IdleLogs,
    PartitionFaults,
    Pulse,
    Record,
    UnansweredFetches,
    is_at_end,
    is_stuck,
    not_yet_taken,
    records_of,
    resume_offset,
    split_lanes,
)
from .reader import Reader
from .refusals import Obstructed
from .source import KafkaSource
from .stage import RekeyStage, StagePorts
from .stage_offsets import Begin, begin_of, beginnings
from .topic_ids import FetchById
from .topic_partition import Division, TopicPartition
from .topics import (
    JAVA,
    PARTITIONERS,
    Diagnosis,
    counts_or_obstacle,
    create_topic,
    fault_of,
    make_stage_topic,
    require_counts,
    sampled_records,
)

__all__ = (
    "AbortedLog",
    "aiokafka_patches",
    "AssignedLanes",
    "belong_together",
    "changed_logs",
    "client_arguments",
    "codecs",
    "consumer_arguments",
    "CorruptBlock",
    "counts_or_obstacle",
    "create_topic",
    "fault_of",
    "Division",
    "FetchById",
    "FirstTimes",
    "group_state",
    "GroupState",
    "IdleLogs",
    "install_codecs",
    "is_at_end",
    "is_stuck",
    "JAVA",
    "kafka_settings",
    "KafkaProducer",
    "KafkaSettings",
    "KafkaSource",
    "LaneLog",
    "LaneLogs",
    "LIBRARIES",
    "RekeyStage",
    "numbers_in",
    "stage_settings",
    "begin_of",
    "beginnings",
    "Begin",
    "Diagnosis",
    "StagePorts",
    "LogSpan",
    "make_stage_topic",
    "member",
    "NO_TIMESTAMP",
    "not_yet_taken",
    "OneRedisAssignor",
    "Obstructed",
    "other_redis",
    "PARTITIONERS",
    "PartitionFaults",
    "Pulse",
    "PythonSnappy",
    "Reader",
    "Record",
    "records_of",
    "require_counts",
    "resume_offset",
    "resuming",
    "topic_retention",
    "sampled_records",
    "Snappy",
    "split_lanes",
    "take_group",
    "TooLarge",
    "TopicPartition",
    "UnansweredFetches",
)
