"""`[[sources]]`: every fault at once, presets, the namespace, and what is written again."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from relevanced.daemon.config import (
    SECTION,
    Config,
    ConfigError,
    applied_sources,
    describe,
    groupings_without_attributes,
    load,
    metrics_blind_to_lost_clicks,
    presets,
    queries_of_shown_items,
    slow_expressions,
    tables_without_users,
)
from relevanced.daemon.storage import namespace_hash
from relevanced.metrics import catalog

IMPRESSION = """
[sources.impression]
id = "search_id"
time = "at"
items = "results"
"""
FEEDBACK = """
[sources.feedback]
id = "search_id"
time = "at"
kind = "what"
item = "product"
"""
OWN = f'[[sources]]\ntopic = "events"\n{IMPRESSION}{FEEDBACK}'
WITH_IDS = '[sources.impression]\nid = "s"\n[sources.feedback]\nid = "s"\n'


def loaded(text: str) -> Config:
    return load(text, {}, "test.toml")


def ids_of(preset: str) -> str:
    """The lines that a preset without an id of the search needs."""
    tables = [name for name in ("impression", "feedback") if name in presets().get(preset, {})]
    return "".join(f'[sources.{name}]\nid = "s"\n' for name in tables)


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return caught.value.faults


def test_sources_name_the_topics() -> None:
    config = loaded(OWN + '[[sources]]\ntopic = "others"\npreset = "metarank"\n')
    assert config.kafka.topics == ("events", "others")


def test_every_fault_is_listed_at_once_with_its_place_and_rule() -> None:
    text = """
[kafka]
topics = ["x"]
[[sources]]
topic = "a"
preset = "segmnt"
[[sources]]
topic = "a"
colour = "red"
time_format = "hours"
[sources.impression]
id = "messageId"
time = "timestamp"
items = "properties.products["
where = "reqex(ua, 'bot')"
rank_base = 2
imtes = "x"
[sources.feedback]
time = "timestamp"
kind = "event"
kinds = { x = "cart" }
[[sources.drop]]
where = "regex(ua, '(a+)+')"
reason = "Bots!"
"""
    found = faults(text)
    expected = [
        "sources[0].preset=segmnt: did you mean segment?",
        "sources[1].colour: unknown key: must be one of topic, preset, codec, framing,"
        " schema_file, descriptor_set, message, envelope, each, time_format,"
        " time_zone, impression, feedback, drop",
        "sources[1].time_format=hours: must be auto, s, ms, us, ns, or a format such as"
        ' "%d.%m.%Y %H:%M:%S"',
        "sources[1].impression.items=properties.products[: is no JMESPath expression: incomplete"
        " (column 20)",
        "sources[1].impression.where=reqex(ua, 'bot'): unknown function reqex: did you mean"
        " regex?",
        "sources[1].impression.rank_base=2: must be a whole number between 0 and 1",
        "sources[1].impression.imtes: unknown key: did you mean items?",
        "sources[1].feedback.id: must be given: the value of the impression's id, by which they"
        ' join; or set attribution.join = "last_touch"',
        "sources[1].feedback.item: must be given: which item it is about",
        "sources[1].drop[0].reason=Bots!: must be 1 to 40 of a-z, 0-9, _",
        "sources[1].drop[0].where=regex(ua, '(a+)+'): regex(): a repeat inside of a repeat, or"
        " an alternative inside of one, can take exponential time: write it without",
        "sources[1].topic=a: stands more than once",
        "kafka.topics: must not be given beside [[sources]], which name the topics",
        'sources[1].feedback.kinds: "cart" is none of attribution.grades (click, add_to_cart,'
        " purchase)",
    ]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("sources = 3", "sources: must be tables: [[sources]]"),
        ('[[sources]]\ntopic = "a"', "sources[0]: maps nothing: give it a preset, or"),
        (f"[[sources]]\n{IMPRESSION}", "sources[0].topic: must be given"),
        (
            f"{OWN}[attribution]\njoin = 'last_touch'",
            "sources[0].feedback.visitor: must be given: whom attribution.join follows",
        ),
        (
            f'{OWN}visitor = "u"\n[attribution]\njoin = "last_touch"',
            "sources[0].impression.visitor: must be given: whom attribution.join follows",
        ),
        (f'{OWN}[[sources.drop]]\nreason = "x"', "sources[0].drop[0].where: must be given"),
        (
            f'{OWN}[[sources.drop]]\nreason = "x"\nvalue = "u"',
            "sources[0].drop[0].value=u: value and values_file go together",
        ),
        (
            '[[sources]]\ntopic = "a"\npreset = "ubi"\neach = "x"',
            'sources[0].each: must not be given beside preset = "ubi", which has its own reader',
        ),
        (
            f'[[sources]]\ntopic = "a"\ntime_zone = "Europe/Berlin"\n{IMPRESSION}',
            "sources[0].time_zone=Europe/Berlin: has no effect: needs a time_format without %z",
        ),
        (
            '[[sources]]\ntopic = "a"\ntime_format = "us"\n'
            + IMPRESSION.replace('time = "', 'time = "kafka_time() || '),
            "sources[0].time_format=us: a time is kafka_time(), in milliseconds: must be",
        ),
        (
            f'[[sources]]\ntopic = "a"\ntime_zone = "Mars"\n{IMPRESSION}',
            "sources[0].time_zone=Mars: must be UTC, an offset such as +01:00, or a name such as",
        ),
        (f'{OWN}[sources.impression.page]\nx = "y"', "sources[0].impression.page="),
        (
            f'[events]\nformat = "ubi"\n{OWN}',
            "events.format: must not be given beside [[sources]], which name each format: preset"
            ' = "ubi"',
        ),
        (
            OWN.replace('"search_id"', '"length(a, b)"'),
            "length(): needs 1 arguments, not 2",
        ),
        (OWN.replace('"search_id"', '"a ! b"'), "is no JMESPath expression: "),
        (OWN.replace('"search_id"', f'"{".".join(1500 * "a")}"'), "must have at most 100 members"),
        (OWN.replace('"search_id"', f'"{"!" * 1500}a"'), "must have at most 100 members"),
    ],
)
def test_a_fault_names_place_value_and_rule(text: str, fault: str) -> None:
    assert any(fault in one for one in faults(text)), faults(text)


def test_a_topic_that_is_missing_or_wrong_repeats_no_other() -> None:
    found = faults(f"[[sources]]\n{IMPRESSION}[[sources]]\ntopic = 3\n{IMPRESSION}")
    assert found == [
        "sources[0].topic: must be given",
        "sources[1].topic=3: must be 1 to 249 of letters, digits, . _ -",
    ]


def test_keys_beside_a_preset_replace_its_keys_one_by_one() -> None:
    text = f'[[sources]]\ntopic = "a"\npreset = "segment"\n{WITH_IDS}'
    text = text.replace("[sources.feedback]", 'attributes = { shop = "shop" }\n[sources.feedback]')
    (source,) = applied_sources(loaded(text).sources)
    (shown,), (reaction,) = source.impressions, source.feedback
    assert [one.text for one in shown.id] == ["s"]
    assert shown.items.text == "properties.products"
    assert list(shown.attributes or {}) == ["device", "country", "locale", "shop"]
    assert (reaction.kinds or {})["Product Clicked"] == "click"


@pytest.mark.parametrize("name", [*presets(), "native", "ubi"])
def test_every_preset_is_a_table_of_the_grammar(name: str) -> None:
    source = loaded(f'[[sources]]\ntopic = "a"\npreset = "{name}"\n{ids_of(name)}').sources[0]
    assert bool(source.impressions or source.feedback) == (name not in ("native", "ubi"))


def test_several_tables_of_one_source_have_places_of_their_own() -> None:
    one = IMPRESSION.replace("[sources.impression]", "[[sources.impression]]")
    text = f'[[sources]]\ntopic = "a"\n{one}{one}'.replace('"results"', '"results["')
    assert [fault.partition("=")[0] for fault in faults(text)] == [
        "sources[0].impression[0].items",
        "sources[0].impression[1].items",
    ]


def test_what_means_the_same_has_the_same_namespace() -> None:
    other = '[[sources]]\ntopic = "others"\npreset = "metarank"\n'
    assert namespace_hash(loaded(OWN + other)) == namespace_hash(loaded(other + OWN))
    explicit = OWN.replace('kind = "what"', 'kind = "what"\nrank_base = 1')
    assert namespace_hash(loaded(OWN)) == namespace_hash(loaded(explicit))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"results"', '"hits"'),
        ('kind = "what"', 'kind = "what"\nrank_base = 0\nrank = "r"'),
        ('topic = "events"', 'topic = "events"\ntime_format = "us"'),
        ('topic = "events"', 'topic = "events"\neach = "batch"'),
    ],
)
def test_what_shapes_rows_starts_a_fresh_namespace(before: str, after: str) -> None:
    assert namespace_hash(loaded(OWN)) != namespace_hash(loaded(OWN.replace(before, after)))


def test_the_values_of_a_file_shape_rows_and_their_order_does_not() -> None:
    text = f'{OWN}[[sources.drop]]\nreason = "staff"\nvalue = "user"\nvalues_file = "staff.txt"\n'

    def hash_of(content: str) -> str:
        return namespace_hash(load(text, {}, "test.toml", lambda path: content))

    assert hash_of("u1\nu2\n") == hash_of("u2\r\n\nu1")
    assert hash_of("u1\nu2\n") != hash_of("u1\n")


def test_a_file_of_values_that_cannot_be_read_is_a_fault() -> None:
    text = f'{OWN}[[sources.drop]]\nreason = "staff"\nvalue = "user"\nvalues_file = "staff.txt"\n'

    def read(path: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", path)

    with pytest.raises(ConfigError) as caught:
        load(text, {}, "test.toml", read)
    assert caught.value.faults == [
        "sources[0].drop[0].values_file=staff.txt: cannot be read: No such file or directory"
    ]


@pytest.mark.parametrize("name", presets())
def test_the_effective_configuration_reads_back_as_the_same(name: str) -> None:
    more = '[[sources.drop]]\nreason = "bot"\nwhere = "regex(ua, \'bot\')"\n'
    config = loaded(f'[[sources]]\ntopic = "a"\npreset = "{name}"\n{ids_of(name)}{more}')
    again = loaded(describe(config))
    assert applied_sources(again.sources) == applied_sources(config.sources)
    assert namespace_hash(again) == namespace_hash(config)


def test_expressions_that_are_slow_by_nature_are_named() -> None:
    text = OWN.replace('"results"', '"sort_by(results, &rank)"').replace('"what"', '"*.x | [0]"')
    assert list(slow_expressions(loaded(text).sources)) == [
        "sources[0].impression.items: slow by nature, as it sorts or visits everything: sort_by(…)",
        "sources[0].feedback.kind: slow by nature, as it sorts or visits everything: *",
    ]


@pytest.mark.parametrize(
    ("table", "queries", "is_named"),
    [
        ("", "", False),
        ('user = "who"', "", True),
        ('visitor = "who"', "", True),
        ("", "min_users = 0", True),
        ('user = "who"', 'user = "session"', False),
        ('attributes = { session = "s" }', 'user = "session"', True),
        ('attributes = { "*" = "others" }', 'user = "session"', True),
    ],
)
def test_sources_whose_searches_count_for_no_user_are_named(
    table: str, queries: str, is_named: bool
) -> None:
    source = OWN.replace(FEEDBACK, f"{table}\n{FEEDBACK}")
    config = loaded(f'[queries]\ntext = "plain"\n{queries}\n{source}')
    user = config.queries.user
    assert list(tables_without_users(config.sources, config.queries)) == (
        []
        if is_named
        else [
            f"sources[0].impression: names no {user}, so no query of it has queries.min_users=5"
            " users, and no text is shown; 0 shows all"
        ]
    )
    off = loaded(source)
    assert not list(tables_without_users(off.sources, off.queries))


@pytest.mark.parametrize(
    ("metric", "text", "is_named"),
    [
        ("nDCG@10", "plain", True),
        ("ClickShare", "hashed", True),
        ("nDCG@10", "off", False),
        ("nDCG(undefined=zero)@10", "plain", False),
        ("RR@10", "plain", False),
        ("Abandonment", "plain", False),
        ("FirstClickRank", "plain", False),
    ],
)
def test_metrics_by_which_a_query_without_clicks_loses_nothing_are_named(
    metric: str, text: str, is_named: bool
) -> None:
    queries = replace(loaded("").queries, text=text)
    found = [*metrics_blind_to_lost_clicks([catalog.parse(metric)], queries)]
    assert [one.split(" is undefined")[0] for one in found] == [metric] * is_named


@pytest.mark.parametrize(
    ("lists", "text", "is_named"),
    [("shown", "plain", True), ("shown", "off", False), ("logged", "plain", False)],
)
def test_lists_whose_events_need_not_have_a_query_are_named(
    lists: str, text: str, is_named: bool
) -> None:
    config = loaded(f'[events]\nformat = "ubi"\nubi_lists = "{lists}"\n[queries]\ntext = "{text}"')
    assert any("user_query" in one for one in queries_of_shown_items(config.limits)) == is_named


@pytest.mark.parametrize(
    ("table", "more", "unnamed"),
    [
        ("", "", ["country", "device"]),
        ('attributes = { country = "where" }', "", ["device"]),
        ('attributes = { "*" = "others" }', "", []),
        ("", '[[derive]]\nattribute = "device"\nwords = [1]\n', ["country"]),
        ("", '[segments]\ngroupings = [["experiment:a"]]\n', []),
    ],
)
def test_attributes_of_groupings_that_no_table_names_are_named(
    table: str, more: str, unnamed: list[str]
) -> None:
    config = loaded(more + OWN.replace(FEEDBACK, f"{table}\n{FEEDBACK}"))
    derived = [one.attribute for one in config.derive]
    found = groupings_without_attributes(config.sources, config.segments.groupings, derived)
    assert list(found) == [
        f"segments.groupings: no table of [[sources]] names the attribute {name!r} in"
        " impression.attributes, so all impressions have (none) there"
        for name in unnamed
    ]


def test_of_the_attributes_of_events_in_an_event_format_nothing_is_known() -> None:
    config = loaded(f'[[sources]]\ntopic = "native"\npreset = "native"\n{OWN}')
    assert not list(groupings_without_attributes(config.sources, [["color"]], ()))


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("results", "to_array(results)", "impression.items: OUTSIDE: to_array(…)"),
        ("results", "results[0:3]", "impression.items: OUTSIDE: index expression"),
        ("what", "not_null(what, kind)", "feedback.kind: OUTSIDE: not_null(…)"),
        ("what", "root().what", "feedback.kind: OUTSIDE: subexpression"),
        ("what", "results", ": OUTSIDE: a list of ids is read as something else, too"),
    ],
)
def test_expressions_outside_the_compiled_subset_are_named(
    old: str, new: str, warning: str
) -> None:
    (sentence,) = slow_expressions(loaded(OWN.replace(f'"{old}"', f'"{new}"')).sources)
    words = "outside the compiled subset, so the topic is read slowly"
    key = "sources[0]" + ("" if warning.startswith(":") else ".")
    assert sentence == key + warning.replace("OUTSIDE", words)


def test_cloudevents_are_read_slowly_only_around_another_codec() -> None:
    enveloped = OWN.replace("[[sources]]\n", '[[sources]]\nenvelope = "cloudevents"\n')
    assert list(slow_expressions(loaded(enveloped).sources)) == []
    registry = '[registry]\nurl = "http://localhost:8081"\n'
    avro = registry + enveloped.replace("envelope", 'codec = "avro"\nenvelope')
    (sentence,) = slow_expressions(loaded(avro).sources)
    assert sentence.startswith("sources[0].envelope: outside the compiled subset")


@pytest.mark.parametrize("name", presets())
def test_presets_are_within_the_compiled_subset(name: str) -> None:
    config = loaded(f'[[sources]]\ntopic = "a"\npreset = "{name}"\n{ids_of(name)}')
    assert list(slow_expressions(config.sources)) == []


def test_the_sources_of_the_guide_are_valid() -> None:
    text = (Path(__file__).parents[3] / "deploy/guide/topics.md").read_text()
    (block,) = [
        one for one in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if f"[[{SECTION}]]" in one
    ]
    (source,) = applied_sources(loaded(block).sources)
    assert source.drops and source.impressions and source.feedback


def test_the_presets_of_the_guide_are_all_there_are() -> None:
    text = (Path(__file__).parents[3] / "deploy/guide/topics.md").read_text()
    assert {*re.findall(r'preset = "([a-z0-9-]+)"', text)} == {*presets(), "native", "ubi"}
