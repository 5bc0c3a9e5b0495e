"""Tokens of clouds over real HTTP: what is asked in which surroundings, what is made of the answer,
and what is said of refusals."""

import base64
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from relevanced.daemon.config import KafkaSection, RedisSection, load
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import kafka_settings
from relevanced.daemon.logins import Token
from relevanced.daemon.logins.configured_tokens import kafka_tokens, redis_tokens

SCOPE = "https://ns.servicebus.windows.net/.default"
Asked = tuple[str, str, dict[str, str], Mapping[str, str]]
"""(method, path, what is asked, headers)"""
SetAt = Callable[[Mapping[str, str]], None]


class Cloud:
    """Answers what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[Asked] = []
        self.address = ""

    async def answer(self, request: web.Request) -> web.Response:
        said = {**request.query, **{k: str(v) for k, v in (await request.post()).items()}}
        self.asked.append((request.method, request.path, said, request.headers))
        status, body = self.answers.get(request.path, (404, {"error": "not_found"}))
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text)


@asynccontextmanager
async def serving() -> AsyncIterator[Cloud]:
    cloud, application = Cloud(), web.Application()
    application.router.add_route("*", "/{path:.*}", cloud.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cloud.address = f"127.0.0.1:{re.findall(r'[0-9]+', str(runner.addresses[0]))[-1]}"
    try:
        yield cloud
    finally:
        await runner.cleanup()


@pytest.fixture
def set_at(monkeypatch: pytest.MonkeyPatch) -> SetAt:
    """Makes these the variables of the environment."""

    def set_all(variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


async def of_azure(client_id: str | None = None) -> Token:
    section = KafkaSection(token="azure", token_scope=SCOPE, token_client_id=client_id)
    return await kafka_tokens(section)._fetch()


async def of_redis(kind: str) -> Token:
    return await redis_tokens(RedisSection(token=kind), "user")._fetch()


async def test_azure_gives_tokens_of_a_machine(set_at: SetAt) -> None:
    async with serving() as cloud:
        path = "/metadata/identity/oauth2/token"
        cloud.answers[path] = 200, {"access_token": "t", "expires_in": "3599"}
        set_at({"AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{cloud.address}/"})
        assert await of_azure("id") == Token("t", 3599.0)
        ((method, asked, said, headers),) = cloud.asked
        assert (method, asked, headers["Metadata"]) == ("GET", path, "true")
        resource = SCOPE.removesuffix("/.default")
        expected = {"resource": resource, "client_id": "id", "api-version": "2018-02-01"}
        assert said == expected
        cloud.answers[path] = 400, {"error": "invalid_request", "error_description": "no identity"}
        out = r"refuses the client \(400 invalid_request\): see kafka.token_scope and token_client"
        with pytest.raises(Unavailable, match=rf'^kafka.token="azure": http.*{path}: {out}'):
            await of_azure("id")


async def test_azure_gives_tokens_of_an_app(set_at: SetAt) -> None:
    async with serving() as cloud:
        ends_s = time.time() + 100
        cloud.answers["/msi/token"] = 200, {"access_token": "t", "expires_on": str(ends_s)}
        url = f"http://{cloud.address}/msi/token"
        set_at({"IDENTITY_ENDPOINT": url, "IDENTITY_HEADER": "h"})
        token = await of_redis("azure")
        assert token.text == "t" and 90 < token.lifetime_s <= 100
        ((_, _, said, headers),) = cloud.asked
        assert headers["X-IDENTITY-HEADER"] == "h"
        assert said == {"resource": "https://redis.azure.com", "api-version": "2019-08-01"}


async def test_azure_gives_tokens_of_a_workload(tmp_path: Path, set_at: SetAt) -> None:
    file = tmp_path / "federated"
    async with serving() as cloud:
        variables = {
            "AZURE_FEDERATED_TOKEN_FILE": str(file),
            "AZURE_AUTHORITY_HOST": f"http://{cloud.address}/",
            "AZURE_TENANT_ID": "tenant",
            "AZURE_CLIENT_ID": "client",
        }
        cloud.answers["/tenant/oauth2/v2.0/token"] = 200, {"access_token": "t", "expires_in": 60}
        set_at(variables)
        with pytest.raises(Unavailable, match="^AZURE_FEDERATED_TOKEN_FILE=.*: cannot be read"):
            await of_azure()
        for assertion in ("first", "second"):
            file.write_text(f"{assertion}\n")
            assert await of_azure() == Token("t", 60.0)
            method, _, said, _ = cloud.asked[-1]
            assert method == "POST" and said.pop("client_assertion") == assertion, "read anew"
            kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            expected = {"grant_type": "client_credentials", "scope": SCOPE, "client_id": "client"}
            assert said == expected | {"client_assertion_type": kind}


GCP = """
[kafka]
security_protocol = "SASL_SSL"
sasl_mechanism = "OAUTHBEARER"
token = "gcp"
"""


async def test_google_gives_tokens_which_kafka_gets_in_an_envelope(
    set_at: SetAt,
) -> None:
    async with serving() as cloud:
        path = "/computeMetadata/v1/instance/service-accounts/default/"
        cloud.answers[f"{path}token"] = 200, {"access_token": "ya29.t", "expires_in": 600}
        cloud.answers[f"{path}email"] = 200, "a@p.iam.gserviceaccount.com"
        set_at({"GCE_METADATA_HOST": cloud.address})
        assert await of_redis("gcp") == Token("ya29.t", 600.0)
        assert {headers["Metadata-Flavor"] for *_, headers in cloud.asked} == {"Google"}
        credential = kafka_settings(load(GCP, {}, "test")).credential
        assert credential is not None
        sent = (await credential.secret()).split(".")
        header, claims, token = (base64.urlsafe_b64decode(part + "==") for part in sent)
        assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
        assert token == b"ya29.t" and "=" not in "".join(sent)
        said = json.loads(claims)
        assert abs(said["iat"] - time.time()) < 60 and said["exp"] - said["iat"] == 600
        assert said["sub"] == "a@p.iam.gserviceaccount.com" and said["scope"] == "kafka"
        del cloud.answers[f"{path}token"]
        with pytest.raises(Unavailable, match=r"\(404 not_found\): give this .* a service account"):
            await of_redis("gcp")


async def test_an_answer_that_is_none_is_said(set_at: SetAt) -> None:
    async with serving() as cloud:
        set_at({"AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{cloud.address}"})
        path = "/metadata/identity/oauth2/token"
        for answer, words in (
            ((200, "<html>"), "answers without an access_token"),
            ((200, {"access_token": "t", "expires_in": "-1"}), "gives tokens that have ended"),
            ((429, {"error": "busy"}), "answers 429 busy"),
        ):
            cloud.answers[path] = answer
            with pytest.raises(Unavailable, match=f"{path}: {words}"):
                await of_azure()
        set_at({"AZURE_POD_IDENTITY_AUTHORITY_HOST": "http://127.0.0.1:1"})
        with pytest.raises(Unavailable, match="does not answer"):
            await of_azure()
