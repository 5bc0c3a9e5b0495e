"""The schema registry that a configuration names."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..config import GLUE, Config, RegistrySection, Secret, login_of, urls_of
from ..errors import StartError
from ..extras import lacking
from ..schemas import SchemaBook

if TYPE_CHECKING:
    from ..registry import Outcome, Registry, RegistrySettings, SchemaFiller

TRIES: Final = 3
"""So often a command asks a registry that does not answer."""


def filler_of(
    config: Config, book: SchemaBook, count: "Callable[[Outcome], None]" = lambda outcome: None
) -> "SchemaFiller | None":
    """Return what fills the book from the registry of a configuration; None where no topic needs
    one, or none is configured. Raises StartError."""
    if not book.topics or not config.registry.is_given:
        return None
    from ..registry import SchemaFiller

    return SchemaFiller(book, _registry_of(config, count))


def _registry_of(config: Config, count: "Callable[[Outcome], None]") -> "Registry":
    if config.registry.kind != GLUE:
        # The HTTP client is slow to load, and few commands have a registry to ask.
        from ..registry import ConfluentRegistry, RegistryClient

        return ConfluentRegistry(RegistryClient(registry_settings(config.registry)), count)
    try:
        from ..registry.glue import GlueRegistry  # botocore is optional, and slow to load
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "botocore":
            raise
        way_out = f"{lacking('aws')}, or name schema_file or descriptor_set in the source"
        raise StartError(f'registry.kind="glue": {way_out}') from error
    return GlueRegistry(config.registry.region or "", count)


def registry_settings(section: RegistrySection) -> "RegistrySettings":
    """Addresses and credentials of this section."""
    from ..registry import RegistrySettings

    url = "" if section.url is None else section.url.reveal()
    username, password = section.username, section.password
    if (login := login_of(url)) is not None:
        username, password = login[0], Secret(login[1])
    return RegistrySettings(
        urls=urls_of(url),
        username=username,
        password=password,
        bearer_token_file=section.bearer_token_file,
        ssl_cafile=section.ssl_cafile,
        ssl_certfile=section.ssl_certfile,
        ssl_keyfile=section.ssl_keyfile,
        ssl_key_password=section.ssl_key_password,
        ssl_check_hostname=section.ssl_check_hostname,
    )
