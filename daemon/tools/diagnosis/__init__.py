"""What `relevanced doctor` finds out about a topic, and the configuration that it proposes."""

from . import bodies
from .bodies import GivenBodies, known_schemas, own_schema
from .findings import as_json, as_text, configuration, findings
from .guessing import GuessedRecords, guessed
from .looked import Looked, looked_at
from .parts import DoctorFinding, is_wrong
from .profile import attributes, crawlers, profiled
from .proposing import config_of, propose
from .traffic_findings import Smallest, lane_of, size_of, smallest_drops, span_s
from .visitors import effect, keys_of

__all__ = (
    "as_json",
    "as_text",
    "attributes",
    "bodies",
    "config_of",
    "configuration",
    "crawlers",
    "DoctorFinding",
    "effect",
    "findings",
    "GivenBodies",
    "guessed",
    "GuessedRecords",
    "is_wrong",
    "keys_of",
    "known_schemas",
    "lane_of",
    "Looked",
    "looked_at",
    "own_schema",
    "profiled",
    "propose",
    "size_of",
    "Smallest",
    "smallest_drops",
    "span_s",
)
