"""What is wrong between the two sides of a TLS connection, in words."""

import ssl
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

Mismatch: TypeAlias = Literal["authority", "name", "client", "protocol", "certificate"]
"""Which side of a TLS connection is to be changed: the authority that is trusted, the name that is
asked for, the certificate of the client, whether TLS is spoken, or the server's certificate."""
_NAMES: Final = (62, 63, 64)
_AUTHORITIES: Final = (2, 18, 19, 20, 21)
_TIMES: Final = (9, 10)
_STRICT: Final = range(79, 95)
"""X509_V_ERR_* of OpenSSL: host, email, IP address; no issuer, or an unknown one; not valid yet, or
expired; and what only X509_V_FLAG_X509_STRICT refuses, which Python sets from 3.13 on."""


def tls_mismatch(error: BaseException) -> tuple[Mismatch, str] | None:
    """(what is to be changed, what is wrong) where TLS is why a connection failed; else None."""
    for cause in causes(error):
        if isinstance(cause, ssl.SSLError) and not hasattr(cause, "reason"):
            continue  # of aiohttp: that of OpenSSL stands behind it
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _refused_certificate(cause.verify_code, cause.verify_message)
        if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return "protocol", "the server ends the handshake: it may not speak TLS there"
        if isinstance(cause, ssl.SSLError):
            return _refused_handshake(cause)
    return None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what stands behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _refused_certificate(code: int, message: str) -> tuple[Mismatch, str]:
    if code in _NAMES:
        return "name", f"the server's certificate is for another name ({message})"
    if code in _AUTHORITIES:
        return "authority", f"the server's certificate is of an unknown authority ({message})"
    if code in _STRICT:
        return "authority", (
            f"Python finds the certificate of the authority too lax ({message}): make it again with"
            " basicConstraints=critical,CA:TRUE, keyUsage=critical,keyCertSign and key identifiers"
        )
    if code in _TIMES:
        return "certificate", f"the server's certificate is not valid now ({message})"
    return "certificate", f"the server's certificate is refused ({message})"


def _refused_handshake(error: ssl.SSLError) -> tuple[Mismatch, str]:
    reason = error.reason or str(error)
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return "protocol", "the server does not speak TLS there"
    if "CERTIFICATE_REQUIRED" in reason or "ALERT_BAD_CERTIFICATE" in reason:
        return "client", f"the server wants another certificate of the client ({reason})"
    if "NO_CERTIFICATE" in reason or "PEM" in reason:
        return "authority", f"a file of certificates has none ({reason})"
    return "protocol", f"the TLS handshake fails ({reason})"
