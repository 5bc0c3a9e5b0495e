"""The configuration: what can be set, its rules, and reading it; it opens no connection and
starts nothing.
"""

from ..errors import ConfigError
from . import loading
from .connection_rules import split_address
from .fingerprint import (
    describe,
    describe_rows,
    differing_keys,
    join_values,
    relaying_keys,
    restarting_keys,
)
from .loading import Layout, layout_of, load, note_renewed, read, read_file, under_layout
from .mapped_sources import applied_sources, book_of, decoder_of, lane_decoder_of, stage_decoder_of
from .rules_between_settings import CARRIED
from .sections import derive, experiments, propensities, source_checks, source_keys
from .sections.changes import ChangesSection
from .sections.connections import (
    AZURE,
    ELASTICACHE_SERVERLESS,
    GCP,
    GLUE,
    MEMORYDB,
    MSK,
    OAUTHBEARER,
    OIDC,
    ONE,
    REKEY,
    SASL_MECHANISMS,
    SECURITY_PROTOCOLS,
    KafkaSection,
    RedisSection,
    RegistrySection,
)
from .sections.propensities import DeclaredTable, written_table
from .sections.sections import AttributionSection
from .sections.source_checks import SECTION
from .sections.source_keys import NAMES, presets
from .settings import SECTIONS, SETTINGS, Config
from .source_warnings import (
    groupings_without_attributes,
    metrics_blind_to_lost_clicks,
    queries_of_shown_items,
    slow_expressions,
    tables_without_users,
)
from .values.kinds import (
    JOIN,
    LAYOUT,
    PLAIN_OPTIONS,
    SECRET_OPTIONS,
    InvalidValue,
    Kind,
    duration_ms,
    duration_text,
    masked_url,
    quoted,
    shown,
)
from .values.secrets import MASK, ReadAgain, Secret
from .values.shared_rules import Ago, LogEnd, Start, fields_of, login_of, masked_urls, urls_of

__all__ = (
    "Ago",
    "applied_sources",
    "AttributionSection",
    "AZURE",
    "book_of",
    "CARRIED",
    "ChangesSection",
    "Config",
    "ConfigError",
    "DeclaredTable",
    "decoder_of",
    "derive",
    "describe",
    "describe_rows",
    "differing_keys",
    "duration_ms",
    "duration_text",
    "ELASTICACHE_SERVERLESS",
    "experiments",
    "fields_of",
    "GCP",
    "GLUE",
    "groupings_without_attributes",
    "InvalidValue",
    "JOIN",
    "join_values",
    "KafkaSection",
    "Kind",
    "lane_decoder_of",
    "LAYOUT",
    "Layout",
    "layout_of",
    "load",
    "loading",
    "LogEnd",
    "login_of",
    "MASK",
    "masked_url",
    "masked_urls",
    "MEMORYDB",
    "metrics_blind_to_lost_clicks",
    "MSK",
    "NAMES",
    "note_renewed",
    "OAUTHBEARER",
    "OIDC",
    "ONE",
    "PLAIN_OPTIONS",
    "presets",
    "propensities",
    "queries_of_shown_items",
    "quoted",
    "read",
    "read_file",
    "ReadAgain",
    "RedisSection",
    "RegistrySection",
    "REKEY",
    "relaying_keys",
    "restarting_keys",
    "SASL_MECHANISMS",
    "Secret",
    "SECRET_OPTIONS",
    "SECTION",
    "SECTIONS",
    "SECURITY_PROTOCOLS",
    "SETTINGS",
    "shown",
    "slow_expressions",
    "source_checks",
    "source_keys",
    "split_address",
    "stage_decoder_of",
    "Start",
    "tables_without_users",
    "under_layout",
    "urls_of",
    "written_table",
)
