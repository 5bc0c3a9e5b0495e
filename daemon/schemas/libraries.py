"""The libraries of codecs, which are extras: what is not installed is found out when it is needed.
Pure."""

import importlib
import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from .types import AVRO, PROTOBUF, UnreadableSchema

_MODULES: Final[Mapping[str, str]] = {AVRO: "fastavro", PROTOBUF: "google.protobuf"}


def missing_extra(codec: str) -> str | None:
    """Return the extra that a codec needs and that is not installed; None where nothing lacks."""
    module = _MODULES.get(codec)
    if module is None:
        return None
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package inside one that is not there
        is_there = False
    return None if is_there else codec


@lru_cache(maxsize=None)
def library(codec: str, name: str) -> Any:
    """Return a module of the codec's library. Raises UnreadableSchema where it is not installed."""
    try:
        return importlib.import_module(f"{_MODULES[codec]}.{name}")
    except ImportError:
        raise UnreadableSchema(
            f"needs a package that is not installed: pip install 'relevanced[{codec}]'"
        ) from None
