"""From the configuration to the plain values that clients of a registry take. Pure."""

from dataclasses import dataclass, field

from ..config.registry_urls import login_of, urls_of
from ..config.sections import RegistrySection


@dataclass(frozen=True)
class RegistrySettings:
    """Where the registry is and how to talk to it. Secrets are left out of the `repr`."""

    urls: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    bearer_token_file: str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True


def registry_settings(section: RegistrySection) -> RegistrySettings:
    """Addresses and credentials of this section."""
    url = "" if section.url is None else section.url.reveal()
    password = None if section.password is None else section.password.reveal()
    username, password = login_of(url) or (section.username, password)
    key_password = section.ssl_key_password
    return RegistrySettings(
        urls=urls_of(url),
        username=username,
        password=password,
        bearer_token_file=section.bearer_token_file,
        ssl_cafile=section.ssl_cafile,
        ssl_certfile=section.ssl_certfile,
        ssl_keyfile=section.ssl_keyfile,
        ssl_key_password=None if key_password is None else key_password.reveal(),
        ssl_check_hostname=section.ssl_check_hostname,
    )
