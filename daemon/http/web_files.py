"""Reads a web configuration file and the certificates it names, and makes the TLS context."""

import hashlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..config.kinds import ConfigError
from .passwords import Crypt, find_crypt, needs_crypt
from .tls_names import CURVES, TLS12_SUITES
from .web_config import CLIENT_AUTH, Tls, WebConfig, parse

VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
TLS_FILES: Final = ("cert_file", "key_file", "client_ca_file")


class Unusable(Exception):
    """The files cannot be used. `digest` identifies their content, so that it is logged once."""

    def __init__(self, faults: list[str], digest: bytes) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults
        self.digest = digest


@dataclass(frozen=True)
class State:
    """The content of the files: settings, TLS context of new connections, digest of all bytes."""

    settings: WebConfig
    context: ssl.SSLContext | None
    digest: bytes


class TlsContext(ssl.SSLContext):
    """Encrypts each new connection by the context that is current at that moment.

    asyncio takes a context once, when the server begins to listen, and calls its `wrap_bio` for
    each connection. So certificates, authorities and versions change without a new listener.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **kwargs)


def load(path: str, crypt: Crypt | None, former: State | None = None) -> State:
    """Read the file and those it names. Returns `former` if no byte has changed. Blocks.

    Raises Unusable with every fault.
    """
    # Bytes are compared, not times of change: a mounted secret is replaced by swapping a link.
    digest = hashlib.sha256()
    try:
        settings = parse(_read(path, digest).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable([f"cannot be read: {_reason(error)}"], digest.digest()) from error
    except ConfigError as error:
        raise Unusable(error.faults, digest.digest()) from error
    folder = Path(path).parent
    faults = list(_uncheckable(settings, crypt)) + list(_unreadable(settings.tls, folder, digest))
    content = digest.digest()
    if former is not None and former.digest == content:
        return former
    try:
        context = None if settings.tls is None or faults else _context(settings.tls, folder)
    except ConfigError as error:
        raise Unusable(error.faults, content) from error
    if faults:
        raise Unusable(faults, content)
    return State(settings, context, content)


def load_first(path: str, crypt: Crypt | None) -> State:
    """Read the files at the start. Raises ConfigError with every fault. Blocks."""
    try:
        return load(path, crypt)
    except Unusable as error:
        raise ConfigError([f"http.web_config={path}: {fault}" for fault in error.faults]) from error


def check(path: str) -> None:
    """Check the files. Raises ConfigError with every fault. Blocks."""
    load_first(path, find_crypt())


def _uncheckable(settings: WebConfig, crypt: Crypt | None) -> Iterator[str]:
    for user, hashed in settings.users.items():
        if crypt is None and needs_crypt(hashed.reveal()):
            rule = "this system's crypt does not know bcrypt: use a hash $scrypt$ln=15,r=8,p=1$…"
            yield f"basic_auth_users.{user}: {rule}"


def _unreadable(tls: Tls | None, folder: Path, digest: "hashlib._Hash") -> Iterator[str]:
    for name in TLS_FILES:
        file = getattr(tls, name, None)
        try:
            if file is not None:
                _read(str(folder / file), digest)
        except OSError as error:
            yield f"tls_server_config.{name}={file}: cannot be read: {_reason(error)}"


def _context(tls: Tls, folder: Path) -> ssl.SSLContext:
    """Raises ConfigError with every fault of the certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[tls.min_version]
    context.maximum_version = VERSIONS[tls.max_version]
    faults: list[str] = []
    try:
        _set_ciphers(context, tls)
    except (OSError, ValueError) as error:
        rule = f"cipher_suites, curve_preferences: this system's OpenSSL refuses them: {error}"
        faults.append(f"tls_server_config.{rule}")
    try:
        # Without a password OpenSSL would ask for one on the terminal, and wait.
        context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file, password="")
    except OSError as error:  # ssl.SSLError is one
        rule = f"must be an unencrypted PEM key that belongs to cert_file: {_reason(error)}"
        faults.append(f"tls_server_config.key_file={tls.key_file}: {rule}")
    requested, required = CLIENT_AUTH[tls.client_auth_type]
    if requested and tls.client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(folder / tls.client_ca_file)
        except OSError as error:
            rule = f"must be PEM certificates: {_reason(error)}"
            faults.append(f"tls_server_config.client_ca_file={tls.client_ca_file}: {rule}")
    if faults:
        raise ConfigError(faults)
    return context


def _set_ciphers(context: ssl.SSLContext, tls: Tls) -> None:
    tls12_ciphers = [TLS12_SUITES[suite] for suite in tls.cipher_suites if suite in TLS12_SUITES]
    if tls12_ciphers:
        context.set_ciphers(":".join(tls12_ciphers))
    elif tls.cipher_suites:
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # no suite of TLS 1.2 is listed
    for curve in tls.curve_preferences:
        context.set_ecdh_curve(CURVES[curve])
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE


def _read(path: str, digest: "hashlib._Hash") -> bytes:
    """The bytes of the file. Updates the digest with them, or with the error in their place."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        digest.update(f"{path}: {error.errno}".encode())
        raise
    digest.update(len(content).to_bytes(8) + content)
    return content


def _reason(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM").replace("_", " ").lower()
    return error.strerror or str(error)
