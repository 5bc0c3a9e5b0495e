"""What a login is made of. A server that refuses it is asked again at once where there is another:
a password or a certificate in files that were rotated, or a new token."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ..config import ReadAgain, Secret, note_renewed
from ..errors import StartError
from ..files import BRIEF_S, content, in_time


class Credential(Protocol):
    """What is shown to a server beside the name of the user."""

    settings: str
    """What to look at where it is refused."""

    async def secret(self) -> str:
        """Return it. Raises Unavailable where it cannot be had now."""

    def is_outdated(self, used: str) -> bool:
        """Return whether there is another one than this, to log in with before a server asks."""

    def refused(self, used: str) -> bool:
        """Note that a server refused this; returns whether there is another one to try now."""


class Password:
    """A secret of the configuration, or of a file."""

    def __init__(self, secret: Secret, settings: str = "") -> None:
        self.settings = settings
        self._secret = secret

    async def secret(self) -> str:
        """Return the password."""
        return self._secret.reveal()

    def is_outdated(self, used: str) -> bool:
        """False: a password has no end."""
        return False

    def refused(self, used: str) -> bool:
        """Note that a server refused this; returns whether the file has another one now."""
        return self._secret.refused(used)


def content_of(setting: str, paths: Sequence[str | None]) -> ReadAgain[tuple[bytes, ...]]:
    """Return what is in files, for those who only have to know whether it has changed. A file that
    cannot be read yet counts as empty."""

    def read() -> tuple[bytes, ...]:
        return _contents([path for path in paths if path is not None])

    try:
        first = read()
    except OSError:
        first = ()
    return ReadAgain(read, first, partial(note_renewed, setting))


def _contents(paths: Sequence[str]) -> tuple[bytes, ...]:
    """Raises OSError, also where a mount does not answer."""
    return in_time(lambda: tuple(map(content, paths)), ", ".join(paths), BRIEF_S)


@dataclass(frozen=True)
class TlsFiles:
    """A context, equal to others that were made of the same files."""

    content: tuple[bytes, ...]
    context: ssl.SSLContext = field(compare=False)


def tls_files(
    section: str,
    cafile: str | None,
    certfile: str | None,
    keyfile: str | None,
    key_password: Secret | None,
    *,
    check_hostname: bool,
) -> ReadAgain[TlsFiles]:
    """Return the context of the files that a section of the configuration names. Raises
    StartError."""
    paths = [path for path in (cafile, certfile, keyfile) if path is not None]

    def made() -> TlsFiles:
        try:
            found = _contents(paths)
            context = ssl.create_default_context(cafile=cafile)
            if certfile is not None:
                password = "" if key_password is None else key_password.reveal()
                context.load_cert_chain(certfile, keyfile, password)
        except OSError as error:  # ssl.SSLError is one
            names = f"{section}.ssl_cafile, ssl_certfile, ssl_keyfile"
            raise StartError(f"{names}: {error}") from error
        context.check_hostname = check_hostname
        return TlsFiles(found, context)

    def read() -> TlsFiles:
        if key_password is not None:
            key_password.refused(key_password.reveal())  # a new key may have a new password
        return made()

    return ReadAgain(read, made(), partial(note_renewed, f"{section}.ssl_certfile"))
