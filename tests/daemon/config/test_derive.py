"""`[[derive]]`: what is read, and what is refused."""

from pathlib import Path

import pytest

from relevanced.daemon.config import (
    Config,
    ConfigError,
    describe,
    describe_rows,
    layout_of,
    load,
    read,
    relaying_keys,
    restarting_keys,
    under_layout,
)
from relevanced.daemon.storage import namespace_hash

GROUPED = '[segments]\ngroupings = [["length"], ["country", "kind"]]\n'
LENGTH = '[[derive]]\nattribute = "length"\nfrom = "query"\nwords = [1, 2, 3]\n'
KIND = r"""[[derive]]
attribute = "kind"
regex = { sku = '^[a-z]{2}\d{5,}$', brand = '(?i)\b(nike|adidas)\b' }
"""
TRAFFIC = """[segments]
groupings = [["traffic"]]
[[derive]]
attribute = "traffic"
directory = "heads"
"""
BOTH = GROUPED + LENGTH + KIND


def of(text: str) -> Config:
    return load(text, {}, "test")


def faults_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        of(text)
    return caught.value.faults


def test_queries_are_read_only_where_something_is_derived() -> None:
    off, on = of(GROUPED), of(BOTH)
    assert not off.limits.queries and not off.plan.derivations
    assert on.limits.queries and on.plan.queries is None
    assert (off.limits.attributes, on.limits.attributes) == (
        ("country", "kind", "length"),
        ("country",),
    )


def test_derived_attributes_are_of_the_layout_and_not_of_the_join() -> None:
    off, on = of(GROUPED), of(BOTH)
    assert namespace_hash(off) == namespace_hash(on)
    assert (restarting_keys(off, on), relaying_keys(off, on)) == ([], ["derive"])
    assert "derive" not in describe_rows(off)


@pytest.mark.parametrize(
    ("before", "after"),
    [("[1, 2, 3]", "[1, 2]"), ("nike", "puma"), ("sku", "code"), ("brand", '"a brand"')],
)
def test_another_rule_is_another_grouping(before: str, after: str) -> None:
    one, other = of(BOTH), of(BOTH.replace(before, after))
    assert layout_of(one).digest != layout_of(other).digest
    same = [a == b for a, b in zip(one.plan.grouping_ids, other.plan.grouping_ids, strict=True)]
    by_words = before.startswith("[")
    assert same == [True, not by_words, by_words]
    assert one.plan.grouping_names == other.plan.grouping_names


def test_order_of_patterns_counts_and_order_of_tables_does_not() -> None:
    turned = of(GROUPED + KIND + LENGTH)
    assert layout_of(turned).digest == layout_of(of(BOTH)).digest
    patterns = KIND.partition("{ ")[2].partition(" }")[0]
    swapped = ", ".join(reversed(patterns.split(", ")))
    assert layout_of(of(BOTH.replace(patterns, swapped))).digest != layout_of(turned).digest


def test_written_reads_back_equal() -> None:
    config = of(BOTH)
    assert of(describe(config)) == config
    assert of(describe_rows(config)).derive == config.derive
    assert under_layout(of(""), layout_of(config)).plan.derivations == config.plan.derivations


def test_directory_is_where_a_process_has_it_and_shapes_nothing() -> None:
    one, other = of(TRAFFIC), of(TRAFFIC.replace("heads", "elsewhere"))
    assert layout_of(one).digest == layout_of(other).digest
    assert one.plan.grouping_ids == other.plan.grouping_ids
    assert under_layout(other, layout_of(one)).derive == other.derive
    assert under_layout(of(GROUPED), layout_of(one)).derive == one.derive
    unlisted = of(TRAFFIC + 'unlisted = "rest"')
    assert unlisted.plan.grouping_ids != one.plan.grouping_ids
    assert layout_of(unlisted).digest != layout_of(one).digest
    assert of(describe(unlisted)) == unlisted


def test_directory_that_is_none_is_a_fault(tmp_path: Path) -> None:
    file, heads = tmp_path / "config.toml", tmp_path / "heads"
    file.write_text(TRAFFIC.replace("heads", str(heads)))
    with pytest.raises(ConfigError) as caught:
        read(str(file), {})
    fault = f"derive[0].directory={heads}: is no directory that can be read"
    assert [fault in one for one in caught.value.faults] == [True]
    heads.mkdir()
    assert read(str(file), {}).derive[0].directory == str(heads)


def test_meaning_of_experiments_and_surfaces_contains_the_rule() -> None:
    text = BOTH + (
        '[experiments.by_kind]\nunit = "kind"\n[experiments.strata]\nstratify_by = "country,kind"\n'
        "[experiments.plain]\n"
    )
    digests = [of(t).tracking for t in (text, text.replace("nike", "puma"))]
    before, after = ({} if one is None else one.digests() for one in digests)
    assert {name for name in before if before[name] != after[name]} == {"by_kind", "strata"}
    weighted = BOTH + (
        '[metrics]\nnames = ["IPS-P@5"]\n[propensities]\nattribute = "length"\n'
        '[propensities.tables.1]\nversion = "1"\nranks = [0.9]\n'
    )
    assert (
        of(weighted).plan.surfaces_id != of(weighted.replace("[1, 2, 3]", "[1]")).plan.surfaces_id
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("derive = 3", "derive: must be tables: [[derive]]"),
        ("[derive]\nattribute = 'a'", "derive: must be tables: [[derive]]"),
        ("[[derive]]\nwords = [1]", "derive[0].attribute: must be given"),
        ('[[derive]]\nattribute = "length"', "derive[0]: words, regex or directory must be given"),
        (LENGTH + 'folder = "heads"', "derive[0].folder: unknown key: must be one of"),
        (LENGTH + 'directory = "heads"', "derive[0].directory: must not be given beside words"),
        (TRAFFIC + 'unlisted = ""', "derive[0].unlisted=: a value must be 1 to 256 bytes"),
        (LENGTH.replace('"query"', '"country"'), "derive[0].from=country: must be one of query"),
        (LENGTH.replace("[1, 2, 3]", "[0]"), "derive[0].words=0: must be a whole number between"),
        (GROUPED + LENGTH.replace("[1, 2, 3]", "[2, 1]"), "derive[0].words=[2, 1]: must ascend"),
        (BOTH + LENGTH, "derive[0].attribute=length: is derived more than once"),
        (LENGTH, "derive[0].attribute=length: has no effect: no grouping, experiment or"),
        (BOTH + "words = [1]", "derive[1].regex: must not be given beside words"),
        (LENGTH.replace('"length"', '""'), "derive[0].attribute=: a name must be 1 to 256"),
        (LENGTH.replace('"length"', '"a,b"'), "must not contain a comma"),
        (LENGTH.replace('"length"', '"user_id"'), "is no attribute, but a unit of experiments"),
        (BOTH.replace("nike", "(a+)+"), "can take exponential time"),
        (BOTH.replace("nike", "("), "is no regular expression"),
        (BOTH.replace("nike", ".*.*.*"), "can take 2.42e+07 steps on a query of 128 characters"),
        (BOTH.replace("(?i)", "").replace("nike", "Nike"), "never matches a part of it: queries"),
        (BOTH.replace("nike", "straße"), "never matches a part of it: queries are in lower case"),
        (BOTH.replace("nike", "cafe\u0301"), "never matches a part of it"),
        (BOTH.replace("nike", "\\t"), "never matches a part of it"),
        (BOTH.replace("brand", '"(none)"'), "a value must be 1 to 256 bytes, and not (none)"),
        (BOTH.replace(r"'^[a-z]{2}\d{5,}$'", "3"), "regex=sku=3: must be a regular expression"),
        (
            BOTH + '[queries]\ntext = "plain"\nuser = "kind"',
            "queries.user=kind: must not be a derived attribute",
        ),
        (
            TRAFFIC + '[experiments.a]\nunit = "traffic"',
            "derive[0].attribute=traffic: is derived by dated files: only groupings may name it",
        ),
        (
            BOTH + '[[sources]]\ntopic = "t"\n[sources.impression]\nid = "i"\ntime = "t"\n'
            'items = "l"\nattributes = { kind = "k" }',
            "derive[1].attribute=kind: is mapped by sources: choose another name",
        ),
    ],
)
def test_a_fault_is_named_with_its_key_value_and_rule(text: str, fault: str) -> None:
    assert any(fault in one for one in faults_of(text)), faults_of(text)
