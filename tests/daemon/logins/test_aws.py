"""Tokens of AWS: their signatures, made again by an implementation of its own."""

import base64
import hashlib
import hmac
import re
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from relevanced.daemon.config import load
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import kafka_settings
from relevanced.daemon.logins.configured_tokens import redis_tokens

ID, KEY, SESSION = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "session/+=="
NOTHING = hashlib.sha256(b"").hexdigest()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", ID),
        ("AWS_SECRET_ACCESS_KEY", KEY),
        ("AWS_SESSION_TOKEN", SESSION),
        ("AWS_CONFIG_FILE", "/nowhere"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nowhere"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    return monkeypatch


def text(value: str) -> str:
    return quote(value, safe="-_.~")


def signature(url: str, unsigned: tuple[str, ...] = (), payload: str = NOTHING) -> str:
    """That of a presigned GET, by the text of Signature Version 4."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, strict_parsing=True)
    given = dict(query)
    signed = sorted((k, v) for k, v in query if k not in ("X-Amz-Signature", *unsigned))
    canonical = "&".join(f"{text(k)}={text(v)}" for k, v in signed)
    asked = f"GET\n{parts.path}\n{canonical}\nhost:{parts.netloc}\n\nhost\n{payload}"
    _, scope = given["X-Amz-Credential"].split("/", 1)
    digest = hashlib.sha256(asked.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{given['X-Amz-Date']}\n{scope}\n{digest}"
    key = f"AWS4{KEY}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def test_the_other_implementation_signs_the_example_of_aws() -> None:
    url = (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        f"&X-Amz-Credential={ID}%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    )
    expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    assert signature(url, payload="UNSIGNED-PAYLOAD") == expected


def checked(url: str, region: str, service: str, unsigned: tuple[str, ...] = ()) -> dict[str, str]:
    """What a signed URL says beside its signature, which is right."""
    given = dict(parse_qsl(urlsplit(url).query))
    assert given.pop("X-Amz-Signature") == signature(url, unsigned)
    scope = given.pop("X-Amz-Credential")
    assert re.fullmatch(rf"{ID}/\d{{8}}/{region}/{service}/aws4_request", scope), scope
    assert given.pop("X-Amz-Date")[:8] == scope.split("/")[1]
    assert given.pop("X-Amz-Security-Token") == SESSION
    assert given.pop("X-Amz-Expires") == "900" and given.pop("X-Amz-SignedHeaders") == "host"
    assert given.pop("X-Amz-Algorithm") == "AWS4-HMAC-SHA256"
    return given


MSK = """
[kafka]
security_protocol = "SASL_SSL"
sasl_mechanism = "AWS_MSK_IAM_OAUTHBEARER"
token_region = "eu-west-1"
"""


async def test_msk_gets_a_signed_request(aws: pytest.MonkeyPatch) -> None:
    settings = kafka_settings(load(MSK, {}, "test"))
    assert settings.sasl_mechanism == "OAUTHBEARER" and settings.credential is not None
    token = await settings.credential.secret()
    assert not token.endswith("=")
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
    said = checked(url, "eu-west-1", "kafka-cluster", ("User-Agent",))
    assert said == {"Action": "kafka-cluster:Connect", "User-Agent": "relevanced"}
    assert await settings.credential.secret() == token, "it serves for 12 minutes"
    assert KEY not in repr(settings)


@pytest.mark.parametrize(
    ("kind", "service", "more"),
    [
        ("elasticache", "elasticache", {}),
        ("elasticache_serverless", "elasticache", {"ResourceType": "ServerlessCache"}),
        ("memorydb", "memorydb", {}),
    ],
)
async def test_a_cache_gets_a_signed_request_without_its_scheme(
    aws: pytest.MonkeyPatch, kind: str, service: str, more: dict[str, str]
) -> None:
    toml = f'[redis]\nurl = "rediss://u-1@h"\ntoken = "{kind}"\ntoken_region = "us-east-1"\n'
    config = load(f'{toml}token_cache = "Search-1"\n', {}, "test")
    token = await redis_tokens(config.redis, "u-1").secret()
    assert token.startswith("search-1/?Action=connect&User=u-1&")
    said = checked(f"http://{token}", "us-east-1", service)
    assert said == {"Action": "connect", "User": "u-1", **more}


async def test_no_identity_is_said_with_the_setting(aws: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        aws.delenv(name)
    credential = kafka_settings(load(MSK, {}, "test")).credential
    assert credential is not None
    places = r"\(environment, profile, web identity, instance\)"
    with pytest.raises(Unavailable, match=rf"^kafka.sasl_mechanism=AWS_.*: no .* {places}$"):
        await credential.secret()
