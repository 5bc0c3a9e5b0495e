"""The log: one line an event, of this program and its libraries; no secrets in tracebacks."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from relevanced.daemon.telemetry import REPEAT_AFTER_S, RetryNoise, configure


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leaves the log as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


def configured(level: str, format_name: str) -> io.StringIO:
    stream = io.StringIO()
    configure(level, format_name, stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def record(message: str, created_s: float, name: str = "aiokafka.conn") -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, "", 0, message, ("a",), None)
    made.created = created_s
    return made


def test_lines_are_json_without_a_terminal() -> None:
    stream = configured("info", "auto")
    structlog.get_logger("relevanced.x").info("lane opened", lane=3)
    (line,) = lines(stream)
    assert (line["event"], line["lane"], line["level"]) == ("lane opened", 3, "info")
    assert (line["logger"], line["timestamp"][-1]) == ("relevanced.x", "Z")


def test_console_lines_are_for_people() -> None:
    stream = configured("info", "console")
    structlog.get_logger("relevanced.x").info("lane opened", lane=3)
    assert "lane opened" in stream.getvalue()
    assert "lane=3" in stream.getvalue()


def test_the_level_applies_to_all_loggers() -> None:
    stream = configured("warning", "json")
    structlog.get_logger("relevanced.x").info("quiet")
    logging.getLogger("aiohttp").info("quiet")
    logging.getLogger("aiohttp").warning("loud %s", 1)
    assert [line["event"] for line in lines(stream)] == ["loud 1"]


def test_last_configuration_wins() -> None:
    first, second = configured("info", "json"), configured("info", "json")
    structlog.get_logger("relevanced.x").info("once")
    assert not first.getvalue()
    assert len(lines(second)) == 1


@pytest.mark.parametrize("format_name", ["console", "json"])
def test_tracebacks_show_no_variables(format_name: str) -> None:
    stream = configured("info", format_name)
    password = "hunter" + "2"
    try:
        raise ValueError(f"{len(password)} letters")
    except ValueError:
        structlog.get_logger("relevanced.x").exception("it failed")
    assert "ValueError: 7 letters" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize("library", ["aiokafka.conn", "opentelemetry.exporter"])
def test_retries_of_libraries_are_no_errors(library: str) -> None:
    stream = configured("info", "json")
    logging.getLogger(library).error("Unable to connect to %s", "host")
    logging.getLogger(library).info("Metadata refreshed")
    (line,) = lines(stream)
    assert (line["level"], line["event"]) == ("warning", "Unable to connect to host")


def test_no_level_shows_requests_and_records_of_libraries() -> None:
    stream = configured("debug", "json")
    for name in ("aiokafka.conn", "aiokafka.producer.sender"):
        logging.getLogger(name).debug("%s", "value=b'red shoes'")
        logging.getLogger(name).info("of %s", name)
    assert [line["event"] for line in lines(stream)] == [
        "of aiokafka.conn",
        "of aiokafka.producer.sender",
    ]


def test_the_same_message_passes_once_a_minute() -> None:
    noise = RetryNoise()
    said = [noise.filter(record("cannot reach %s", second)) for second in range(60)]
    again = record("cannot reach %s", REPEAT_AFTER_S)
    assert said == [True] + [False] * 59
    assert noise.filter(again)
    assert again.getMessage() == "cannot reach a (59 more like it since)"
    assert noise.filter(record("something else %s", 1))


def test_other_loggers_keep_their_errors() -> None:
    noise = RetryNoise()
    ours = [record("cannot %s", 1, "relevanced.x") for _ in range(3)]
    assert all(noise.filter(found) for found in ours)
    assert {found.levelno for found in ours} == {logging.ERROR}
