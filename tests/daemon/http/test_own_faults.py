"""A fault of our own costs a request its answer, and the log one traceback a minute."""

import logging

import pytest

from relevanced.daemon.http import HttpServer
from relevanced.daemon.telemetry import logs
from tests.daemon.http.raw_client import exchange, parsed, serving

METRICS = b"GET /metrics HTTP/1.0\r\n\r\n"
LIVEZ = b"GET /livez HTTP/1.0\r\n\r\n"


async def test_a_fault_of_our_own_is_logged_once_a_minute_for_each_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret of nobody")

    async def fail_elsewhere(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(HttpServer, "_metrics_text", fail)
    monkeypatch.setattr(HttpServer, "_livez", fail_elsewhere)
    caplog.set_level(logging.ERROR)
    async with serving() as server:
        for _ in range(50):
            status, body = parsed(await exchange(server, METRICS))
            assert (status, body["error"]) == (500, "Internal Server Error")
        assert parsed(await exchange(server, LIVEZ))[0] == 500
        assert [record.exc_info is not None for record in caplog.records] == [True, True]
        monkeypatch.setattr(logs, "LOG_AGAIN_AFTER_S", 0.0)
        await exchange(server, METRICS)
    assert "50 since" in caplog.records[-1].getMessage()
