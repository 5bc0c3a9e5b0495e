"""`[registry]`: what may stand there, what is a fault, and that no login shows."""

from pathlib import Path

import pytest

from relevanced.daemon.config import (
    Config,
    ConfigError,
    Secret,
    describe,
    load,
    login_of,
    masked_urls,
    read,
    urls_of,
)
from relevanced.daemon.recompute.schema_registry import registry_settings
from relevanced.daemon.storage import namespace

URL = "https://sr:8081"
SECRET = "s3cret"


def of(text: str, **environment: str) -> Config:
    return load(f"[registry]\n{text}", environment, "test")


FAULTS = [
    ('url = "sr:8081"', "must be http(s)://host:port/path, or several of them"),
    ('url = "https://a b"', "must be http(s)://host:port/path"),
    ('url = "https://a:8081?x=1"', "must be http(s)://host:port/path"),
    ('kind = "karapace"', "registry.kind: must be one of confluent, glue"),
    ('username = "u"', "registry.username=u: has no effect: needs registry.url"),
    (
        'url = "https://sr"\npassword = "p"',
        "registry.password: has no effect: needs registry.username",
    ),
    ('url = "https://sr"\nusername = "a:b"', "registry.username: must not contain a colon"),
    (
        'url = "https://u:p@sr"\nusername = "u"\npassword = "p"',
        "registry.username=u: registry.url contains a login too",
    ),
    (
        'url = "https://sr"\nusername = "u"\npassword = "p"\nbearer_token_file = "f"',
        "registry.bearer_token_file=f: a user name is given too: remove one of them",
    ),
    (
        'url = "https://sr"\nusername = "u"\npassword = "p"\npassword_file = "f"',
        "registry.password_file=f: password is given too: remove one of them",
    ),
    ('url = "https://sr"\nssl_keyfile = "k"', "registry.ssl_keyfile=k: needs ssl_certfile too"),
    (
        'url = "https://sr"\nregion = "eu-west-1"',
        'registry.region=eu-west-1: has no effect: needs kind "glue"',
    ),
    ('kind = "glue"', 'registry.region: must be set for kind "glue"'),
    (
        'kind = "glue"\nregion = "eu-west-1"\nurl = "https://sr"',
        'registry.url=https://sr: has no effect with kind "glue"',
    ),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS, ids=[fault for _, fault in FAULTS])
def test_what_cannot_be_is_a_fault(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        of(text)
    assert fault in str(raised.value)
    assert len(raised.value.faults) == 1


def test_several_addresses_are_read_without_their_logins() -> None:
    url = "https://key:s%2Fcret@a.example.com:8081/ , http://b/apis/ccompat/v7"
    settings = registry_settings(of(f'url = "{url}"').registry)
    assert settings.urls == ("https://a.example.com:8081", "http://b/apis/ccompat/v7")
    assert (settings.username, settings.password) == ("key", Secret("s/cret"))
    assert "cret" not in repr(settings)


def test_settings_come_from_the_environment_too() -> None:
    environment = {"URL": f"{URL},http://b", "USERNAME": "u", "PASSWORD": SECRET}
    given = {f"RELEVANCED_REGISTRY__{name}": value for name, value in environment.items()}
    settings = registry_settings(of("", **given).registry)
    assert settings.urls == (URL, "http://b")
    assert (settings.username, settings.password) == ("u", Secret(SECRET))


@pytest.mark.parametrize(
    "url",
    [
        f"https://u:{SECRET}@sr",
        f"https://{SECRET}@sr",
        f"https://u:{SECRET}@sr,http://v:{SECRET}@b",
        f"https://u:1,{SECRET}@sr",
        f"https://u:{SECRET}/@sr",
        f"https://u:{SECRET}@x@sr",
        f"sr,https://u:{SECRET}@sr",
        f"{SECRET}",
    ],
)
def test_no_login_of_an_address_shows(url: str) -> None:
    assert SECRET not in masked_urls(url)
    try:
        shown = describe(of(f'url = "{url}"'))
    except ConfigError as error:
        shown = str(error)
    assert SECRET not in shown


def test_a_registry_moves_no_namespace() -> None:
    given = of(f'url = "{URL}"\nusername = "u"\npassword = "{SECRET}"')
    assert namespace(given) == namespace(of(""))


def test_files_of_secrets_that_cannot_be_read_are_faults(tmp_path: Path) -> None:
    missing = f"{tmp_path}/missing"
    environment = {"RELEVANCED_REGISTRY__URL": URL}
    for name in ("BEARER_TOKEN_FILE", "SSL_KEY_PASSWORD_FILE"):
        with pytest.raises(ConfigError, match=f"registry.{name.lower()}=.*: cannot be read"):
            read(None, {**environment, f"RELEVANCED_REGISTRY__{name}": missing})


SOURCE = """
[[sources]]
topic = "t"
codec = "{codec}"
{keys}
[sources.impression]
id = "id"
time = "time"
items = "items"
"""


def sourced(registry: str, codec: str = "avro", keys: str = "") -> str:
    return f"[registry]\n{registry}{SOURCE.format(codec=codec, keys=keys)}"


WITHOUT = [
    (
        sourced(""),
        "sources[0].codec=avro: its records name schemas: set registry.url, or schema_file with one"
        " for all of them",
    ),
    (
        sourced("", "protobuf"),
        "sources[0].codec=protobuf: its records name schemas: set registry.url, or descriptor_set"
        " with one for all of them",
    ),
    (
        sourced('url = "http://sr"', keys='framing = "glue"'),
        'sources[0].framing=glue: needs registry.kind = "glue"',
    ),
    (
        sourced('kind = "glue"\nregion = "eu-west-1"', keys='framing = "confluent"'),
        'sources[0].framing=confluent: names no schema of registry.kind = "glue"',
    ),
]


@pytest.mark.parametrize(("text", "fault"), WITHOUT, ids=[fault for _, fault in WITHOUT])
def test_a_source_whose_schemas_nobody_knows_is_a_fault(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text, {}, "test")
    assert raised.value.faults == [fault]


@pytest.mark.parametrize(
    "text",
    [
        sourced('url = "http://sr"'),
        sourced('kind = "glue"\nregion = "eu-west-1"'),
        sourced("", "json"),
        sourced("", keys='schema_file = "a.avsc"'),
    ],
)
def test_a_source_whose_schemas_somebody_knows_is_none(text: str) -> None:
    assert load(text, {}, "test").sources


def test_the_parts_of_addresses() -> None:
    assert urls_of("https://u:p@[::1]:8081/x/") == ("https://[::1]:8081/x",)
    assert login_of("http://a,http://u@b") == ("u", "")
    assert login_of(URL) is None
