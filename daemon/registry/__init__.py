"""The door to a schema registry: schemas by the ids that records name, over HTTP or from Glue."""

from . import client, filling, protocol
from .client import ConfluentRegistry, MissingSchema, Outcome, Registry, RegistryClient
from .filling import AT_ONCE, SchemaFiller
from .protocol import MARGIN, Listing, Rate, RegistrySettings

__all__ = (
    "AT_ONCE",
    "client",
    "ConfluentRegistry",
    "filling",
    "Listing",
    "MARGIN",
    "MissingSchema",
    "Outcome",
    "protocol",
    "Rate",
    "Registry",
    "RegistryClient",
    "RegistrySettings",
    "SchemaFiller",
)
