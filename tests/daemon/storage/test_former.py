"""The names that version 5 of the schema gave to namespaces."""

import gzip
import json
from pathlib import Path

import pytest

from relevanced.daemon.config.loading import load
from relevanced.daemon.storage.former import former_namespace

WRITTEN = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "compatibility/schema5.json.gz").read_bytes())
)


@pytest.mark.parametrize(
    ("text", "name"), [("", "relevanced-4d841b6b"), (WRITTEN["config"], WRITTEN["namespace"])]
)
def test_a_configuration_finds_the_namespace_that_it_had(text: str, name: str) -> None:
    assert former_namespace(load(text, {}, "test")) == name


def test_version_5_derived_nothing() -> None:
    derived = '[[derive]]\nattribute = "country"\nwords = [1]'
    assert former_namespace(load(derived, {}, "test")) != former_namespace(load("", {}, "test"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("days = 35", "days = 36"),
        ("max_segments = 50", "max_segments = 51"),
        ('"P@3"', '"P@4"'),
        ('["device"],', ""),
        ("0.6", "0.7"),
        ('"10m"', '"20m"'),
        ('"2m"', '"3m"'),
    ],
)
def test_all_that_shaped_rows_was_named(before: str, after: str) -> None:
    assert before in WRITTEN["config"]
    other = load(WRITTEN["config"].replace(before, after), {}, "test")
    assert former_namespace(other) != WRITTEN["namespace"]
