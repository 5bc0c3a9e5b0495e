"""How this process proves who it is to Kafka, Redis and a registry: passwords, certificates and
tokens, and what it does when a server refuses them.
"""

from .credentials import Credential, Password, TlsFiles, content_of, tls_files
from .token_source import NoteToken, TokenSource, ignore_token
from .tokens import Token

__all__ = (
    "content_of",
    "Credential",
    "Password",
    "tls_files",
    "TlsFiles",
    "Token",
    "TokenSource",
    "NoteToken",
    "ignore_token",
)
