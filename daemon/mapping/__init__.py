"""From records in a team's own format to events: tables of expressions, and what applies them."""

from .cloudevents import unwrapped
from .compiled.compiled_source import outside_of, reason_to_interpret
from .expressions import (
    ALL_MEMBERS,
    AUTO,
    CLOUDEVENTS,
    ENVELOPES,
    NO_ITEMS,
    SKIP,
    UNITS,
    Drop,
    Evaluation,
    ExperimentsTable,
    Expression,
    FeedbackTable,
    Id,
    ImpressionTable,
    InvalidExpression,
    MappedSource,
    OwnSchema,
    TimeFormat,
    Zone,
    calls,
    expression,
    slow_part,
)
from .functions import Surroundings
from .members import members_of
from .records import Mapper, TopicDecoder, mapper, topic_decoder
from .regular_expressions import literals, most_steps, pattern_fault
from .times import format_fault, has_zone, time_ms

__all__ = (
    "ALL_MEMBERS",
    "AUTO",
    "calls",
    "CLOUDEVENTS",
    "Drop",
    "ENVELOPES",
    "Evaluation",
    "ExperimentsTable",
    "Expression",
    "expression",
    "FeedbackTable",
    "format_fault",
    "has_zone",
    "Id",
    "ImpressionTable",
    "InvalidExpression",
    "literals",
    "MappedSource",
    "Mapper",
    "mapper",
    "members_of",
    "most_steps",
    "NO_ITEMS",
    "outside_of",
    "OwnSchema",
    "pattern_fault",
    "reason_to_interpret",
    "SKIP",
    "slow_part",
    "Surroundings",
    "time_ms",
    "TimeFormat",
    "topic_decoder",
    "TopicDecoder",
    "UNITS",
    "unwrapped",
    "Zone",
)
