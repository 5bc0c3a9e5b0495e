"""One record of a mapping becomes events, or a reason with expression, value and rule."""

from collections import Counter
from typing import Any

import pytest

from relevanced.daemon.events import (
    Feedback,
    Impression,
    Limits,
    Rejected,
    Skipped,
    decoder,
    native_text,
)

from .sources import AT, AT_MS, CLICKS, LIMITS, OWN, clicked, events_of, json, mapper_of, shown


def impression(text: str, value: Any, **around: Any) -> Impression:
    (event,) = events_of(text, value, **around)
    assert isinstance(event, Impression), event
    return event


def feedback(text: str, value: Any) -> Feedback:
    (event,) = events_of(text, value)
    assert isinstance(event, Feedback), event
    return event


def refusal(text: str, value: Any, **around: Any) -> tuple[str, str]:
    (event,) = events_of(text, value, **around)
    assert isinstance(event, Rejected), event
    return event.reason, event.detail


def test_a_list_of_ids_is_an_impression() -> None:
    assert impression(OWN, shown()) == Impression("q1", AT_MS, ("a", "b"))


def test_elements_are_objects_with_an_id() -> None:
    text = OWN + 'item = "product.sku || id"'
    value = shown(items=[{"product": {"sku": 7}}, {"id": "b"}])
    assert impression(text, value).items == ("7", "b")


def test_a_list_may_be_text_or_parallel_arrays() -> None:
    text = OWN.replace('"items"', "\"split(items, ',')\"")
    assert impression(text, shown(items="a,b,c")).items == ("a", "b", "c")
    assert impression(text, shown(items="")).items == ()
    text = OWN.replace('"items"', '"zip(items, at_rank)"') + 'item = "[0]"\nrank = "[1]"'
    assert impression(text, shown(items=["a", "b"], at_rank=[2, 1])).items == ("b", "a")


@pytest.mark.parametrize("base", [0, 1])
def test_ranks_sort_by_their_numbers_whatever_the_base_and_others_come_last(base: int) -> None:
    text = f'{OWN}item = "id"\nrank = "n"\nrank_base = {base}'
    items = [{"id": "c", "n": 0}, {"id": "b", "n": "2"}, {"id": "a", "n": 1.0}]
    value = shown(items=[{"id": "x", "n": "(not set)"}, *items, {"id": "y"}])
    assert impression(text, value).items == ("c", "a", "b", "x", "y")


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        ('first_rank = "n"', {"n": 11}, 11),
        ('first_rank = "n"', {}, 1),
        ('page = "p"\npage_size = "s"', {"p": 2, "s": 20}, 41),
        ('page = "p"\npage_size = "s"\npage_base = 1', {"p": 2, "s": 20}, 21),
        ('page = "p"\npage_size = "s"', {}, 1),
    ],
)
def test_a_page_begins_at_its_rank(keys: str, value: dict[str, int], expected: int) -> None:
    assert impression(OWN + keys, shown(**value)).first_rank == expected


def test_a_later_page_is_cut_at_the_depth() -> None:
    mapper = mapper_of(OWN + 'first_rank = "n"', Limits(depth=3))
    (event,) = mapper.events(json(shown(n=3)))
    assert event == Impression("q1", AT_MS, ("a",), first_rank=3)


def test_a_list_that_is_null_is_skipped_or_empty() -> None:
    assert refusal(OWN, shown(items=None)) == (
        "no_list",
        "sources[0].impression.items (items): there is none",
    )
    assert impression(OWN + 'no_items = "empty"', shown(items=None)).items == ()


def test_ids_of_several_parts_are_joined() -> None:
    text = OWN.replace('"id"', '["user", "session", "id"]')
    assert impression(text, shown(user="u", session=3)).impression_id == "u|3|q1"
    assert events_of(text, shown(user="u"))[0].reason == "no_query_id"


def test_grades_and_teams_stand_at_their_elements() -> None:
    text = OWN + 'item = "id"\ngrade = "label"\nteam = "by"'
    items = [{"id": "a", "label": 2, "by": "new"}, {"id": "b", "label": None}]
    event = impression(text, shown(items=items))
    assert (event.grades, event.teams) == ({"a": 2.0}, ("new", None))
    assert impression(text, shown(items=[{"id": "a"}])).teams == ()


def test_attributes_are_scalars_by_name_and_all_members_of_an_object() -> None:
    text = OWN + 'attributes = { country = "geo.country", "*" = "facets" }'
    value = shown(geo={"country": "DE"}, facets={"n": 3, "ok": True, "l": [1], "country": "US"})
    assert impression(text, value).attributes == {"country": "DE", "n": "3", "ok": "true"}


def test_a_value_that_cannot_be_an_attribute_is_left_out_alone() -> None:
    text = OWN + 'attributes = { country = "c", device = "d" }'
    found = events_of(text, shown(c={"x": 1}, d="ios"))
    assert found == [
        Impression("q1", AT_MS, ("a", "b"), attributes={"device": "ios"}),
        Rejected("bad_value"),
    ]


def test_only_the_attributes_that_are_needed_are_read() -> None:
    text = OWN + 'attributes = { country = "c", device = "d", "*" = "f" }'
    mapper = mapper_of(text, Limits(attributes=("country", "shop")))
    (event,) = mapper.events(json(shown(c="DE", d="ios", f={"shop": "s", "rest": "r"})))
    assert isinstance(event, Impression)
    assert event.attributes == {"country": "DE", "shop": "s"}


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ('{ ranker = "ab.ranker" }', {"ab": {"ranker": "new"}}),
        ('{ map = "ab" }', {"ab": {"ranker": "new"}}),
        (
            '{ list = "ab", name = "n", variant = "v" }',
            {"ab": [{"n": "ranker", "v": "new"}, {"n": "other", "v": None}]},
        ),
    ],
)
def test_experiments_have_three_shapes(keys: str, value: dict[str, Any]) -> None:
    assert impression(f"{OWN}experiments = {keys}", shown(**value)).experiments == {"ranker": "new"}


def test_an_experiment_with_two_variants_in_one_impression_has_neither() -> None:
    keys = 'experiments = { list = "ab", name = "n", variant = "v" }'
    listed = [{"n": n, "v": v} for n, v in ("ra", "sc", "rb", "sc", "ra")]
    found = events_of(OWN + keys, shown(ab=listed))
    assert found == [
        Impression("q1", AT_MS, ("a", "b"), experiments={"s": "c"}),
        *[Rejected("two_variants")] * 2,
    ]


def test_an_empty_text_is_no_attribute_and_no_variant() -> None:
    keys = 'attributes = { country = "c", "*" = "rest" }\nexperiments = { ranker = "v" }'
    found = impression(OWN + keys, shown(c="", rest={"d": "", "e": "x"}, v=""))
    assert (found.attributes, found.experiments) == ({"e": "x"}, {})


def test_the_unit_of_experiments_is_the_user_else_the_visitor() -> None:
    assert impression(OWN + 'visitor = "v"', shown(v="v1")).user_id == "v1"
    assert impression(OWN + 'visitor = "v"\nuser = "u"', shown(v="v1", u=7)).user_id == "7"
    assert impression(OWN + 'visitor = "v"', shown(v="")).user_id is None


def test_feedback_has_kind_item_and_rank() -> None:
    assert feedback(CLICKS, clicked(rank=3)) == Feedback("q1", AT_MS, "click", "a", 3)
    assert feedback(CLICKS, clicked(rank="x")).rank is None
    assert feedback(CLICKS + "rank_base = 0", clicked(rank=0)).rank == 1
    assert feedback(CLICKS, clicked(rank=0)).rank == 0, "no item has it: a rank_mismatch"
    (skipped,) = events_of(CLICKS, clicked(rank=0, item=None))
    assert isinstance(skipped, Skipped) and skipped.reason == "no_item"
    assert feedback(CLICKS, clicked(item=None, rank=2)).item is None


def test_kinds_say_what_is_feedback() -> None:
    text = CLICKS + 'kinds = { "Product Clicked" = "click", "1" = "purchase" }'
    assert feedback(text, clicked(what="Product Clicked")).kind == "click"
    assert feedback(text, clicked(what=1)).kind == "purchase"
    assert events_of(text, clicked(what="Page Viewed")) == [Skipped("not_mapped")]
    assert events_of(text, clicked(what={})) == [Skipped("not_mapped")]


def test_feedback_to_several_items_is_refused_item_by_item() -> None:
    text = CLICKS.replace('"item"', '"sku"') + 'items = "products"\nitem_id = "query"'
    products = [{"sku": "a"}, {"sku": []}, {"sku": "b", "query": "q2"}, {}]
    found = events_of(text, clicked(products=products))
    assert found[0] == Feedback("q1", AT_MS, "click", "a")
    assert found[2] == Feedback("q2", AT_MS, "click", "b")
    assert [one.reason for one in found if isinstance(one, Rejected)] == ["wrong_type", "no_item"]


@pytest.mark.parametrize("products", [None, []])
def test_feedback_about_no_item_is_skipped_and_counted(products: Any) -> None:
    """Also where a codec reads what is absent as an empty array."""
    text = CLICKS.replace('"item"', '"sku"') + 'items = "products"'
    detail = "sources[0].feedback.items (products): the event is about no item of a list"
    assert events_of(text, clicked(products=products)) == [Skipped("no_item", detail)]


@pytest.mark.parametrize("id", [None, ""])
def test_a_list_of_no_search_is_skipped(id: str | None) -> None:
    detail = "sources[0].impression.id (id): the list belongs to no search"
    assert events_of(OWN, shown(id=id)) == [Skipped("no_query_id", detail)]
    parts = OWN.replace('id = "id"', 'id = ["v", "id"]')
    assert events_of(parts, shown(id=id, v="1"))[0].reason == "no_query_id"
    assert events_of(parts, shown(id=id, v=[]))[0].reason == "wrong_type"


def test_feedback_of_no_search_is_skipped() -> None:
    assert events_of(CLICKS, clicked(id=None)) == [
        Skipped("no_query_id", "sources[0].feedback.id (id): the event belongs to no search")
    ]


def test_an_explicit_grade_needs_no_kind() -> None:
    text = CLICKS + 'grade = "g"'
    assert feedback(text, clicked(what=None, g=2)) == Feedback("q1", AT_MS, None, "a", None, 2.0)
    assert refusal(text, clicked(what=None))[0] == "missing_field"


@pytest.mark.parametrize(("text", "grade"), [("2", 2.0), ("-1", 0.0), ("1.5", 1.5)])
def test_a_grade_may_be_digits_in_text(text: str, grade: float) -> None:
    listed = OWN + 'item = "id"\ngrade = "label"'
    assert impression(listed, shown(items=[{"id": "a", "label": text}])).grades == {"a": grade}
    assert feedback(CLICKS + 'grade = "g"', clicked(g=text)).grade == grade


@pytest.mark.parametrize("text", ["", "1e1", "11", "+1", " 1", "NaN", "E"])
def test_a_grade_in_text_that_is_no_number_of_the_scale_is_refused(text: str) -> None:
    assert refusal(CLICKS + 'grade = "g"', clicked(g=text))[0] == "bad_grade"


def test_impressions_come_before_feedback_and_every_table_gives_an_event() -> None:
    text = CLICKS.replace("where = \"type == 'click'\"\n", "") + OWN
    found = events_of(text, shown(what="click", item="a"))
    assert [type(event) for event in found] == [Impression, Feedback]


def test_a_record_may_be_a_batch_an_array_or_json_in_a_string() -> None:
    ids = ["q1", "q2"]
    batch = [shown(id=one) for one in ids]
    for each, value in (
        ('each = "batch || @"\n', {"batch": batch}),
        ("", batch),
        ('each = "parse_json(payload)"\n', {"payload": json(batch).decode()}),
    ):
        found = events_of(each + OWN, value)
        assert [event.impression_id for event in found if isinstance(event, Impression)] == ids


def test_a_bad_element_is_refused_alone() -> None:
    found = events_of(OWN, [shown(), 3, shown(at=None), shown(id="q2"), {"type": "page"}])
    assert [type(event) for event in found] == [
        Impression,
        Rejected,
        Rejected,
        Impression,
        Skipped,
    ]


def test_a_record_of_too_many_events_is_refused_whole() -> None:
    assert refusal(OWN, [{}] * 10_001) == ("too_large", "10001 events: must be <= 10000")


def test_drops_count_under_their_reasons_in_their_order() -> None:
    text = OWN + """
[[sources.drop]]
reason = "bot"
where = "regex(agent, '(?i)bot|crawl')"
[[sources.drop]]
reason = "test"
where = "agent == 'Robot'"
"""
    assert events_of(text, shown(agent="GoogleBot")) == [Skipped("bot")]
    assert events_of(text, shown(agent="Robot")) == [Skipped("bot")]
    assert isinstance(events_of(text, shown())[0], Impression)
    assert events_of(text, {"type": "page", "agent": "bot"}) == [Skipped("not_mapped")]


def test_headers_key_topic_time_and_the_whole_record_can_be_asked() -> None:
    text = """
each = "events"
[sources.impression]
id = ["header('X-Search')", "key()", "topic()"]
time = "kafka_time()"
items = "root().items"
"""
    event = impression(
        text,
        {"events": [{}], "items": ["a"]},
        record_time_ms=AT_MS,
        key=b"k",
        headers=(("x-search", b"s"), ("X-SEARCH", b"second")),
    )
    assert event == Impression("s|k|t", AT_MS, ("a",))


@pytest.mark.parametrize(
    ("text", "value", "reason", "detail"),
    [
        (
            OWN,
            shown(at="yesterday"),
            "bad_timestamp",
            "sources[0].impression.time (at)='yesterday': must be an ISO 8601 date-time with a"
            " zone, or s, ms or µs, since 1970",
        ),
        (
            OWN,
            shown(id=[1]),
            "wrong_type",
            "sources[0].impression.id (id)=an array: must be a string or an integer",
        ),
        (
            OWN,
            shown(at=None),
            "missing_field",
            "sources[0].impression.time (at): must be there and not null",
        ),
        (
            OWN.replace('"items"', '"items[?length(@) > `1`]"'),
            shown(items=[3]),
            "wrong_type",
            "sources[0].impression.items (items[?length(@) > `1`]): length(): needs string or array"
            " or object, not number",
        ),
        (
            'each = "parse_json(payload)"\n' + OWN,
            {"payload": "{"},
            "not_json",
            "sources[0].each (parse_json(payload)): parse_json(): Input data was truncated",
        ),
        (
            OWN + 'page = "p"\npage_size = "s"',
            shown(p=-1, s=2),
            "bad_rank",
            "sources[0].impression.page (p)=-1: must be an integer >= 0",
        ),
        (
            OWN + 'grade = "g"\nitem = "i"',
            shown(items=[{"i": "a", "g": "x"}]),
            "bad_grade",
            "sources[0].impression.grade (g)='x': must be a number",
        ),
    ],
)
def test_a_refusal_names_expression_value_and_rule(
    text: str, value: Any, reason: str, detail: str
) -> None:
    assert refusal(text, value) == (reason, detail)


def test_an_event_too_far_after_its_record_is_refused() -> None:
    reason, _ = refusal(OWN, shown(), record_time_ms=AT_MS - LIMITS.max_future_ms - 1)
    assert reason == "future"
    assert impression(OWN, shown(), record_time_ms=AT_MS - LIMITS.max_future_ms)
    assert impression(OWN, shown(), record_time_ms=-1)


def test_a_record_without_a_value_is_a_tombstone() -> None:
    assert mapper_of(OWN).events(None) == [Skipped("tombstone")]


def test_a_record_beyond_the_size_limit_is_refused_unread() -> None:
    mapper = mapper_of(OWN, Limits(max_record_bytes=10))
    assert mapper.events(b"x" * 11) == [Rejected("too_large", "11 bytes: must be <= 10")]


def test_work_is_bounded_by_the_size_of_the_record() -> None:
    text = 'each = "e"\n' + OWN.replace('"items"', '"root().e[].id"')
    found = events_of(text, {"e": [shown()] * 4000})
    reasons = [one.reason for one in found if isinstance(one, Rejected)]
    assert set(reasons) == {"too_large"}
    assert len(found) == 4000


def test_text_that_is_no_json_is_work_too() -> None:
    text = 'each = "e"\n' + OWN.replace('"items"', '"parse_json(root().b)"')
    found = events_of(text, {"b": '"' + "x" * 200_000, "e": [shown()] * 400})
    reasons = Counter(one.reason for one in found if isinstance(one, Rejected))
    assert reasons.keys() == {"not_json", "too_large"} and reasons["not_json"] < 50


INTERPRETED = OWN.replace("type == 'shown'", "sort(keys(@))[0] == 'at'")


@pytest.mark.parametrize("text", [OWN, INTERPRETED])
@pytest.mark.parametrize("limits", [LIMITS, Limits(passes_on=True), Limits(queries=True)])
def test_half_of_a_surrogate_pair_costs_no_record(text: str, limits: Limits) -> None:
    mapper = mapper_of(text + 'query = "q"\n', limits)
    cut, plain = (
        json(shown(nobody="X", q="X")).replace(b"X", one) for one in (rb"a\ud83c", rb"a\ufffd")
    )
    (event,) = mapper.events(cut)
    assert isinstance(event, Impression) and [event] == mapper.events(plain)
    assert mapper.events(b"[%b]" % cut) == [event]


def test_half_of_a_surrogate_pair_costs_no_record_where_a_number_is_broken_too() -> None:
    value = json(shown(nobody="X", too="Y")).replace(b"X", rb"\ud83c").replace(b'"Y"', b"1e999")
    assert mapper_of(OWN).events(value) == events_of(OWN, shown())


def test_half_of_a_surrogate_pair_may_stand_in_json_in_a_text() -> None:
    payload = json(shown(nobody="X")).replace(b"X", rb"\ud83c").decode()
    assert events_of('each = "parse_json(payload)"\n' + OWN, {"payload": payload}) == events_of(
        OWN, shown()
    )


BROKEN = [b'"caf\xc3"', b"1e999"]
"""No text of UTF-8, and a number that no type has."""


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("query", ["q", "sort([q])[0]"])
@pytest.mark.parametrize("reads", [{}, {"passes_on": True}, {"attributes": ()}])
def test_a_query_that_is_broken_costs_no_record(
    broken: bytes, query: str, reads: dict[str, Any]
) -> None:
    text = f'{OWN}query = "{query}"\nattributes = {{ country = "c" }}\n{CLICKS}'
    good = shown(q="X", c="de", type="shown"), clicked(q="X")
    for value in (json(good[0]), json(good[1]), json(good)):
        value = value.replace(b'"X"', broken)
        off = mapper_of(text, Limits(**reads)).events(value)
        on = mapper_of(text, Limits(queries=True, **reads)).events(value)
        assert [one for one in on if one != Rejected("bad_query")] == off
        assert on.count(Rejected("bad_query")) == sum(isinstance(one, Impression) for one in off)
        assert not any(isinstance(one, Rejected) for one in off)


def test_what_is_broken_and_not_only_a_query_refuses_the_record() -> None:
    value = json(shown(q="X")).replace(b'"X"', b'"caf\xc3"')
    text = OWN + 'query = "q"\nattributes = { country = "q" }'
    for limits in (Limits(), Limits(queries=True)):
        (event,) = mapper_of(text, limits).events(value)
        assert isinstance(event, Rejected) and event.reason == "not_json"


def test_the_visitor_is_the_user_where_a_list_names_none() -> None:
    text, limits = OWN + 'visitor = "v"\nuser = "u"', Limits(join="last_touch")
    mapper = mapper_of(text, limits)
    named = [{"u": "u1"}, {"u": "u1", "v": ""}, {"u": 7, "v": None}, {"u": "u1", "v": "v1"}, {}]
    visitors = ["u1", "u1", "7", "v1", None]
    events = [event for one in named for event in mapper.events(json(shown(**one)))]
    assert [event.visitor for event in events if isinstance(event, Impression)] == visitors
    # What the stage of rekeyed lanes writes is read as the same event.
    read = decoder("native", limits)
    for event in events:
        assert isinstance(event, Impression) and read(native_text(event), None) == [event]


def test_null_given_to_a_function_is_null() -> None:
    text = OWN.replace('"id"', "\"join('-', parts) || id\"")
    assert impression(text, shown()).impression_id == "q1"


def test_the_time_of_the_log_and_of_the_record_agree_in_every_unit() -> None:
    for unit, factor in (("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)):
        text = f'time_format = "{unit}"\n{OWN}'
        for value in (AT_MS * factor, str(int(AT_MS * factor))):
            assert impression(text, shown(at=value)).time_ms == AT_MS
    assert impression(OWN, shown(at=AT)).time_ms == AT_MS


def test_a_repeated_hour_is_read_by_the_time_of_the_record_compiled_or_not() -> None:
    text = f'time_format = "%Y-%m-%d %H:%M"\ntime_zone = "Europe/Berlin"\n{OWN}'
    value, second_ms = json(shown(at="2026-10-25 02:15")), 1792890900000
    made = mapper_of(text)
    assert made.compiled is not None
    (event,) = made.events(value, second_ms + 5000)
    assert isinstance(event, Impression) and event.time_ms == second_ms
