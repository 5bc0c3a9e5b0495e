"""A login that stands in a setting where none belongs is masked like one that belongs there."""

import pytest

from relevanced.daemon.config import ConfigError, describe, load, shown

PASSWORD = "hunter2"
LOGIN = f"u:{PASSWORD}@b:9092"


@pytest.mark.parametrize(
    "text",
    [
        f'[redis]\nnamespace = "redis://{LOGIN}"',
        f'[redis]\nnamespace = "redis://{PASSWORD}@h"',
        f'[redis]\nkeep = "redis://{LOGIN}"',
        f'[kafka]\nbootstrap_servers = ["b:1", "{LOGIN}"]',
        f'[kafka]\nbootstrap_servers = {{"{LOGIN}" = 1}}',
        f'[kafka]\nbootstrap_servers = [["{LOGIN}"]]',
        f'[kafka]\ntopics = ["{LOGIN}"]',
        f'[kafka]\ntopics = ["{"u" * 60}:{PASSWORD}{"x" * 80}@b"]',
        f'[kafka]\nsecurity_protocol = "u:a\\n@ {PASSWORD} @:/@b:9092"',
        f'[kafka]\nsecurity_protocol = "{PASSWORD}"',
        f'[kafka]\nsasl_mechanism = "{PASSWORD}"',
        f'[registry]\nurl = "http://h"\nkind = "{PASSWORD}"',
        f'[kafka]\nmax_batch_records = "{LOGIN}"',
        f'[kafka]\nsasl_username = "{LOGIN}"',
        f'[kafka]\nssl_cafile = "{LOGIN}"',
        f'[http]\nlisten = "{LOGIN}"',
        f'[attribution]\ngrades = {{"{LOGIN}" = -1}}',
        f'"redis://{LOGIN}" = 1',
        f'[redis]\n"{LOGIN}" = 1',
    ],
)
def test_a_fault_shows_no_login(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text, {}, "config.toml")
    assert caught.value.faults and PASSWORD not in str(caught.value)


def test_a_variable_of_the_environment_shows_no_login() -> None:
    with pytest.raises(ConfigError) as caught:
        load("", {"RELEVANCED_HTTP__LISTEN": LOGIN}, "environment")
    assert str(caught.value).startswith("http.listen=u:***@b:9092: must be host:port")


@pytest.mark.parametrize("key", ["kafka.client_id", "http.web_config", "redis.password_file"])
def test_a_description_masks_what_looks_like_a_login(key: str) -> None:
    section, name = key.split(".")
    config = load(f'[{section}]\n{name} = "redis://{LOGIN}"', {}, "config.toml")
    assert f'{name} = "redis://u:***@b:9092"' in describe(config)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("u:p@h", "u:***@h"),
        ("redis://u:p@h:1/0", "redis://u:***@h:1/0"),
        ("redis://:p@h", "redis://:***@h"),
        ("redis://token@h", "redis://***@h"),
        ("a:1,u:p@q@h:2", "a:***@h:2"),
        (["a:1", "u:p@h:2"], '["a:1", "u:***@h:2"]'),
        ({"u:p@h": ["u:p@h"]}, '{"u:***@h": ["u:***@h"]}'),
        ("nDCG@10", "nDCG@10"),
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"),
        ("host:9092", "host:9092"),
        (5, "5"),
    ],
)
def test_only_a_login_is_masked(value: object, text: str) -> None:
    assert shown(value) == text
