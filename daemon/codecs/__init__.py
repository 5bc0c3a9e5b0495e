"""Readers of Avro and Protobuf: nothing imports them; `schemas` loads them by name when a topic has
one.
"""

from .avro import AvroSchema
from .protobuf import protobuf_file, protobuf_schema
from .values import bytes_text

__all__ = ("AvroSchema", "bytes_text", "protobuf_file", "protobuf_schema")
