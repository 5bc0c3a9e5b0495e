"""The door to a schema registry: schemas by the ids that records name, over HTTP or from Glue."""

from . import client, filling
from .client import ConfluentRegistry, MissingSchema, Outcome, Registry, RegistryClient
from .filling import AT_ONCE, SchemaFiller
from .protocol import Rate, RegistrySettings

__all__ = (
    "AT_ONCE",
    "client",
    "ConfluentRegistry",
    "filling",
    "MissingSchema",
    "Outcome",
    "Rate",
    "Registry",
    "RegistryClient",
    "RegistrySettings",
    "SchemaFiller",
)
