"""What `relevanced doctor` finds out about a topic, and the configuration that it proposes."""

from . import bodies
from .bodies import GivenBodies, known_schemas, own_schema
from .findings import as_json, as_text, configuration, findings
from .guessing import GuessedRecords, guess_tables
from .joins import ComparedJoins, compared_joins
from .looked import Looked, looked_at
from .parts import DoctorFinding, is_wrong, json_value
from .profile import attributes, crawlers, profiled
from .proposing import config_of, propose_sources
from .traffic_findings import Smallest, lane_of, size_of, smallest_drops, span_s
from .visitors import effect_of_visitors, keys_of

__all__ = (
    "as_json",
    "as_text",
    "attributes",
    "bodies",
    "compared_joins",
    "ComparedJoins",
    "config_of",
    "configuration",
    "crawlers",
    "DoctorFinding",
    "effect_of_visitors",
    "findings",
    "GivenBodies",
    "guess_tables",
    "GuessedRecords",
    "is_wrong",
    "json_value",
    "keys_of",
    "known_schemas",
    "lane_of",
    "Looked",
    "looked_at",
    "own_schema",
    "profiled",
    "propose_sources",
    "size_of",
    "Smallest",
    "smallest_drops",
    "span_s",
)
