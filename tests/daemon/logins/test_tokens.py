"""When a token serves, when it is renewed, and what comes of tokens that are refused."""

import asyncio

import pytest

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.logins import Token, TokenSource


class Issuer:
    """Gives tokens of 100 s, as long as it is up."""

    def __init__(self) -> None:
        self.now_s, self.asked, self.is_up = 0.0, 0, True
        self.noted: list[tuple[str, float | None]] = []
        self.source = TokenSource(
            self.fetch, clock=lambda: self.now_s, note=lambda *told: self.noted.append(told)
        )

    async def fetch(self) -> Token:
        self.asked += 1
        await asyncio.sleep(0)
        if not self.is_up:
            raise Unavailable("issuer: does not answer")
        return Token(f"token {self.asked}", 100.0)

    async def at(self, now_s: float) -> str:
        self.now_s = now_s
        return await self.source.secret()


async def test_a_token_serves_for_80_percent_of_its_life() -> None:
    issuer = Issuer()
    assert await asyncio.gather(*(issuer.at(0) for _ in range(5))) == ["token 1"] * 5
    assert await issuer.at(79.9) == "token 1" and issuer.asked == 1
    assert await issuer.at(80) == "token 2"
    assert await issuer.at(159.9) == "token 2" and issuer.asked == 2


async def test_the_old_token_serves_while_there_is_no_other_and_it_lives() -> None:
    issuer = Issuer()
    await issuer.at(0)
    issuer.is_up = False
    assert await issuer.at(85) == "token 1"
    assert await issuer.at(85.01) == "token 1" and issuer.asked == 2, "not asked without end"
    assert await issuer.at(99.9) == "token 1"
    with pytest.raises(Unavailable, match="issuer: does not answer"):
        await issuer.at(100)
    issuer.is_up = True
    assert await issuer.at(120) == f"token {issuer.asked}"


async def test_a_refused_token_is_replaced_unless_it_is_new() -> None:
    issuer = Issuer()
    token = await issuer.at(0)
    assert not issuer.source.refused(token), "the next one would be refused too"
    issuer.now_s = 10.0
    assert issuer.source.refused(token)
    other = await issuer.at(10)
    assert other == "token 2" and issuer.source.refused(token), "another is there by now"
    assert await issuer.at(11) == other


async def test_who_asks_whether_a_token_is_outdated_never_waits() -> None:
    issuer = Issuer()
    token = await issuer.at(0)
    assert not issuer.source.is_outdated(token) and issuer.asked == 1
    issuer.now_s, issuer.is_up = 80.0, False
    assert not issuer.source.is_outdated(token), "it still serves"
    await issuer.at(81)
    assert not issuer.source.is_outdated(token) and issuer.asked == 2, "not asked without end"
    issuer.now_s, issuer.is_up = 90.0, True
    assert not issuer.source.is_outdated(token), "it is asked for meanwhile"
    other = await issuer.at(90)
    assert other != token and issuer.source.is_outdated(token)
    assert not issuer.source.is_outdated(other)


async def test_each_request_is_told_with_how_long_its_token_lives() -> None:
    issuer = Issuer()
    await issuer.at(0)
    issuer.is_up = False
    assert await issuer.at(80) == "token 1"
    issuer.is_up = True
    await issuer.at(90)
    assert issuer.noted == [("ok", 100.0), ("failed", None), ("ok", 100.0)]
