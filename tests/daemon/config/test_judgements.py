"""[judgements]: what it means to lanes, what belongs to the layout, and every fault of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from relevanced.daemon.config import (
    Config,
    ConfigError,
    describe,
    layout_of,
    load,
    read,
    relaying_keys,
    restarting_keys,
    under_layout,
)
from relevanced.daemon.storage import namespace_hash

ON = '[judgements]\ndirectory = "{}"\n'


def of(text: str = "") -> Config:
    return load(text, {}, "test")


def faults_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        of(text)
    return str(caught.value).splitlines()


def test_nothing_is_judged_without_a_directory() -> None:
    assert of().plan.judged is None
    assert not of().limits.queries
    assert layout_of(of()) == layout_of(of("[judgements]\nmax_grade = 2"))


def test_directory_alone_takes_the_default_metrics() -> None:
    config = of('[judgements]\ndirectory = "d"')
    assert config.plan.judged is not None and config.limits.queries
    assert [metric.name for metric in config.plan.judged.metrics] == [
        *("nDCG(ideal=pool)@10", "P@5", "Judged@10")
    ]
    assert load(describe(config), {}, "described") == config


def test_columns_mean_their_settings() -> None:
    def ids(more: str) -> tuple[str, ...]:
        judged = of(f'[judgements]\nmetrics = ["P@5", "nDCG@3"]\n{more}').plan.judged
        assert judged is not None
        return judged.column_ids

    found = [ids(more) for more in ("", "relevant_from = 2", 'unjudged = "skip"')]
    assert len(set(found)) == 3
    assert all("ideal=pool" in columns[1] for columns in found)
    assert ids("max_grade = 2") == ids(""), "no metric of these depends on it"


def test_directory_is_no_part_of_any_hash() -> None:
    one, other = of('[judgements]\ndirectory = "a"'), of('[judgements]\ndirectory = "b"')
    assert layout_of(one) == layout_of(other)
    assert namespace_hash(one) == namespace_hash(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        'metrics = ["P@5"]',
        "relevant_from = 2",
        "max_grade = 2",
        'unjudged = "skip"',
    ],
)
def test_change_is_another_layout_and_no_fresh_namespace(text: str) -> None:
    before = of() if not text else of('[judgements]\ndirectory = "a"')
    after = of(f'[judgements]\ndirectory = "a"\n{text}')
    assert restarting_keys(before, after) == []
    assert namespace_hash(before) == namespace_hash(after)
    assert relaying_keys(before, after) and layout_of(before).digest != layout_of(after).digest


def test_spelling_of_a_metric_is_no_change() -> None:
    one = of('[judgements]\nmetrics = ["nDCG@10"]')
    other = of('[judgements]\nmetrics = ["nDCG(gain=exponential)@10"]')
    assert layout_of(one).digest == layout_of(other).digest


def test_process_under_a_layout_keeps_its_own_directory() -> None:
    judged = of('[judgements]\ndirectory = "a"\nmetrics = ["P@3"]\nunjudged = "skip"')
    own = of('[judgements]\ndirectory = "b"')
    assert under_layout(own, layout_of(judged)).judgements == replace(
        judged.judgements, directory="b"
    )
    assert under_layout(own, layout_of(judged)).plan.judged == judged.plan.judged
    assert under_layout(of(), layout_of(judged)).plan.judged == judged.plan.judged
    assert under_layout(own, layout_of(of())).plan.judged is None


def test_every_fault_is_reported_at_once() -> None:
    names = '["P@5", "nope", "IPS-P@5", "nDCG@500", "P(rel=1)@5", "DCG@10"]'
    assert faults_of(f"[judgements]\nmetrics = {names}\nmax_grade = 100\nunjudged = 0") == [
        "judgements.unjudged=0: must be one of zero, skip",
    ]
    assert faults_of(f"[judgements]\nmetrics = {names}\nmax_grade = 100") == [
        "judgements.metrics=nope: 'nope' is not a known metric: `relevanced metrics` lists all of"
        " them",
        "judgements.metrics=IPS-P@5: IPS-P@5 needs propensities (how likely each rank is examined),"
        " which judgements and lists cannot provide",
        "judgements.metrics=nDCG@500: k must be <= metrics.depth (100)",
        "judgements.metrics=P(rel=1)@5: P@5 is given more than once",
        "judgements.metrics=DCG@10: can become too large to be counted exactly, with grades up to"
        " 100",
    ]
    assert faults_of("[judgements]\nmetrics = []\nrelevant_from = 4") == [
        "judgements.metrics=[]: at least one metric is needed",
        "judgements.relevant_from=4.0: must be <= judgements.max_grade (3)",
    ]
    assert faults_of("[judgements]\nrelevant_from = 0\nmax_grade = 101\n") == [
        "judgements.relevant_from=0: must be > 0 and <= 100",
        "judgements.max_grade=101: must be > 0 and <= 100",
    ]


def test_directory_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "relevanced.toml"
    for text, fault in (
        (ON.format(tmp_path / "no"), f"judgements.directory={tmp_path / 'no'}: is no directory"),
        (ON.format(file), f"judgements.directory={file}: is no directory"),
        ('[judgements]\nmetrics = ["P@5"]', "judgements.directory: must be given"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=fault):
            read(str(file), {})
    file.write_text(ON.format(tmp_path))
    assert read(str(file), {}).judgements.directory == str(tmp_path)


def test_items_without_a_judgement_are_counted_beside_queries_only() -> None:
    on = '[judgements]\ndirectory = "d"\nmissing = true\n'
    (fault,) = faults_of(on)
    assert "judgements.missing" in fault and 'queries.text = "plain" or "hashed"' in fault
    assert len(faults_of('[judgements]\nmissing = true\n[queries]\ntext = "plain"')) == 1
    config = of(on + '[queries]\ntext = "plain"')
    assert config.plan.missing and config.plan.missing_depth == 10
    assert load(describe(config), {}, "described") == config
    assert under_layout(of('[queries]\ntext = "plain"'), layout_of(config)).plan.missing


def test_counting_items_is_another_layout_and_off_is_the_same_as_before() -> None:
    off = of('[judgements]\ndirectory = "d"\n[queries]\ntext = "plain"')
    on = of('[judgements]\ndirectory = "d"\nmissing = true\n[queries]\ntext = "plain"')
    assert relaying_keys(off, on) == ["judgements.missing"]
    assert restarting_keys(off, on) == []
    assert "missing" not in layout_of(off).text, "layouts from before have the same digest"
    assert layout_of(off).digest != layout_of(on).digest
