"""Reads from Kafka and sends to it: the only room that imports the Kafka client; it keeps no state
of a lane but the next offsets, and knows nothing of events or metrics.
"""

from . import aiokafka_patches, codecs, member, resuming, stage_offsets
from .aiokafka_patches import install_codecs
from .assigned_lanes import AssignedLanes, split_lanes
from .assignor import OneRedisAssignor, belong_together
from .client import (
    KafkaSettings,
    client_arguments,
    consumer_arguments,
    kafka_settings,
    stage_settings,
)
from .codecs import LIBRARIES, CorruptBlock, PythonSnappy, Snappy, TooLarge
from .group_redis import GroupState, group_state, other_redis, take_group
from .lane_log import LaneLog, LaneLogs, LogSpan, changed_logs
from .offsets import NO_TIMESTAMP, IdleLogs, Record, is_at_end, not_yet_taken, records_of
from .partition_faults import AbortedLog, PartitionFaults, Pulse, UnansweredFetches, is_stuck
from .partitioners import JAVA, PARTITIONERS
from .producer import KafkaProducer
from .reader import Reader
from .refusals import Obstructed
from .resuming import resume_offset
from .retention import FirstTimes, numbers_in, topic_retention
from .sampled_records import SamplePortion, reached_ms, sampled_records
from .source import KafkaSource
from .stage import RekeyStage, StagePorts
from .topic_creation import create_topic, make_stage_topic
from .topic_ids import FetchById
from .topic_partition import Division, TopicPartition
from .topics import Diagnosis, counts_or_obstacle, fault_of, require_counts

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
    "reached_ms",
    "Reader",
    "Record",
    "records_of",
    "require_counts",
    "resume_offset",
    "resuming",
    "topic_retention",
    "sampled_records",
    "SamplePortion",
    "Snappy",
    "split_lanes",
    "stage_offsets",
    "take_group",
    "TooLarge",
    "TopicPartition",
    "UnansweredFetches",
)
