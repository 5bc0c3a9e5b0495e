"""An issuer of tokens over real HTTP, whose keys a broker checks: JWTs of RS256, signed by the
`openssl` command."""

import base64
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.services.certificates import openssl

CLIENT = "Basic ZGFlbW9uOnMlMkZjcmV0"  # daemon:s%2Fcret
SECRET = "s/cret"
ISSUER = "https://issuer.example"
KEY_ID = "first"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Issuer:
    """Its answers may be made to fail: `statuses` are given first, one by one."""

    def __init__(self, directory: Path, lifetime_s: float) -> None:
        directory.mkdir(exist_ok=True)
        self.lifetime_s = lifetime_s
        self.late_s = 0.0
        """So much earlier than it says does a token end."""
        self.audience = "kafka"
        self.statuses: list[int] = []
        self.asked = 0
        self.url = ""
        self.issued: Callable[[str], None] = lambda token: None
        """Called with each token."""
        self.jwks = directory / "jwks.json"
        self._key = directory / "issuer.key"
        openssl("genrsa", "-out", str(self._key), "2048")
        shown = subprocess.run(
            ["openssl", "rsa", "-in", str(self._key), "-noout", "-modulus"],
            check=True,
            capture_output=True,
            text=True,
        )
        modulus = bytes.fromhex(shown.stdout.strip().removeprefix("Modulus="))
        key = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256", "e": "AQAB"}
        self.jwks.write_text(json.dumps({"keys": [{**key, "n": _text(modulus)}]}))

    def token(self) -> str:
        now_s = time.time()
        claims = {"sub": "daemon", "iss": ISSUER, "aud": self.audience, "scope": "events"}
        claims |= {"iat": int(now_s) - 1, "exp": now_s + self.lifetime_s - self.late_s}
        parts = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}, claims
        signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
        command = ["openssl", "dgst", "-sha256", "-sign", str(self._key)]
        made = subprocess.run(command, input=signed.encode(), check=True, capture_output=True)
        return f"{signed}.{_text(made.stdout)}"

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        form = await request.post()
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return web.Response(status=status)
        if request.headers.get("Authorization") != CLIENT:
            return web.json_response({"error": "invalid_client"}, status=401)
        if form["grant_type"] != "client_credentials" or form.get("scope") != "events":
            return web.json_response({"error": "invalid_scope"}, status=400)
        body: dict[str, Any] = {"access_token": self.token(), "token_type": "Bearer"}
        self.issued(body["access_token"])
        return web.json_response({**body, "expires_in": self.lifetime_s})


@asynccontextmanager
async def issuing(issuer: Issuer) -> AsyncIterator[Issuer]:
    application = web.Application()
    application.router.add_post("/token", issuer._answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = re.findall(r"\d+", str(runner.addresses[0]))[-1]
    issuer.url = f"http://127.0.0.1:{port}/token"
    try:
        yield issuer
    finally:
        await runner.cleanup()
