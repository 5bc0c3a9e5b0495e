"""The door to a schema registry: schemas by the ids that records name, over HTTP or from Glue."""

from . import client, protocol, schema_fetching
from .client import ConfluentRegistry, MissingSchema, Outcome, Registry, RegistryClient
from .protocol import MARGIN, Listing, Rate, RegistrySettings
from .schema_fetching import AT_ONCE, SchemaFiller

__all__ = (
    "AT_ONCE",
    "client",
    "ConfluentRegistry",
    "Listing",
    "MARGIN",
    "MissingSchema",
    "Outcome",
    "protocol",
    "Rate",
    "Registry",
    "RegistryClient",
    "RegistrySettings",
    "schema_fetching",
    "SchemaFiller",
)
