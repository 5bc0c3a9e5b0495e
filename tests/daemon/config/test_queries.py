"""The settings of the tables of queries."""

import pytest

from relevanced.daemon.config import (
    Config,
    ConfigError,
    describe,
    describe_rows,
    layout_of,
    load,
    relaying_keys,
    under_layout,
)
from relevanced.daemon.storage import namespace_hash

ON = '[queries]\ntext = "plain"\n'
KEY = "sixteen bytes, or more"


def of(text: str, files: dict[str, str] | None = None) -> Config:
    return load(text, {}, "test", None if files is None else files.__getitem__)


def faults_of(text: str, files: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        of(text, files)
    return caught.value.faults


def test_queries_are_off_by_default_and_change_no_name() -> None:
    off, on = of(""), of(ON)
    assert off.plan.queries is None and not off.limits.queries and on.limits.queries
    assert namespace_hash(off) == namespace_hash(on)
    assert "queries" not in describe_rows(off) and "queries" in describe_rows(on)
    assert of('[queries]\nkept = 7\nby = "country"').plan == off.plan
    assert layout_of(of("[queries]\nkept = 7")).digest == layout_of(off).digest


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('by = "country"', "queries.by"),
        ("kept = 7", "queries.kept"),
        ("min_users = 0", "queries.min_users"),
        ('user = "session"', "queries.user"),
        ("examples = 0", "queries.examples"),
    ],
)
def test_change_of_a_table_is_another_layout(line: str, key: str) -> None:
    assert relaying_keys(of(ON), of(f"{ON}{line}")) == [key]


def test_days_are_no_layout() -> None:
    assert relaying_keys(of(ON), of(f"{ON}days = 30")) == []


def test_layout_keeps_the_days_and_the_key_of_this_process() -> None:
    hashed = f'[queries]\ntext = "hashed"\ndays = 3\nkey = "{KEY}"'
    config = under_layout(of(hashed), layout_of(of('[queries]\ntext = "hashed"\nkept = 9')))
    queries = config.plan.queries
    assert queries is not None
    assert (queries.kept, queries.days, queries.key) == (9, 3, KEY.encode())


def test_user_attribute_is_read() -> None:
    config = of(f'{ON}user = "session"')
    assert config.limits.attributes is not None and "session" in config.limits.attributes


def test_by_must_be_a_grouping() -> None:
    (fault,) = faults_of(f'{ON}by = "shop"')
    assert fault == 'queries.by=shop: must be a grouping of its own: add ["shop"] to' + (
        " segments.groupings"
    )


def test_hashed_texts_need_a_key_that_cannot_be_guessed() -> None:
    hashed = '[queries]\ntext = "hashed"\n'
    assert faults_of(hashed, {}) == ['queries.key_file: must be given for text = "hashed"']
    (short,) = faults_of(f'{hashed}key_file = "k"', {"k": "short\n"})
    assert short == "queries.key_file=k: the key must have at least 16 bytes"
    plan = of(f'{hashed}key_file = "k"', {"k": f"{KEY}\n"}).plan
    assert plan.queries is not None and plan.queries.key == KEY.encode()


def test_key_is_never_shown() -> None:
    config = of(f'[queries]\ntext = "hashed"\nkey = "{KEY}"')
    assert KEY not in describe(config) + repr(config) + describe_rows(config) + repr(config.plan)


def test_key_without_hashes_is_a_fault() -> None:
    assert any("has no effect" in fault for fault in faults_of(f'{ON}key = "{KEY}"'))
