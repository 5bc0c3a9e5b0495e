"""The plain values that clients of a registry take. Pure."""

from dataclasses import dataclass, field


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
