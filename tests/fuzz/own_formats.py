"""Mappings of one's own that use each part of the compiled subset, and records of them."""

import json
from typing import Any, Final

AT: Final = "2026-11-20T12:00:00.250Z"
_SHOWN: Final[dict[str, Any]] = {
    "type": "shown",
    "id": "q1",
    "at": AT,
    "items": ["a", "b", "c"],
    "user": {"id": "u1", "plan": None},
    "country": "DE",
    "ab": {"ranker": "new"},
    "facets": {"device": "ios", "shop": "s", "n": 3, "list": []},
    "agent": "Mozilla",
    "rest": {"price": 1.5, "text": "ü"},
}
_CLICKED: Final[dict[str, Any]] = {
    "type": "click",
    "id": "q1",
    "at": 1795176000500,
    "what": "click",
    "item": "a",
    "rank": 1,
    "user": None,
}
_OTHER: Final[dict[str, Any]] = {"type": "page", "url": "/search", "n": 4}

PLAIN: Final = """
[sources.impression]
where = "type == 'shown'"
id = "id"
time = "at"
items = "items"
visitor = "user.id"
attributes = { country = "country", "*" = "facets" }
experiments = { map = "ab" }
[sources.feedback]
where = "type == 'click'"
id = "id"
time = "at"
kind = "what"
item = "item"
rank = "rank"
grade = "grade"
[[sources.drop]]
reason = "bot"
where = "regex(agent, '(?i)bot|crawl')"
[[sources.drop]]
reason = "free"
where = "user.plan == 'free' && n > `3`"
"""
OBJECTS: Final = """
each = "payload.events"
[sources.impression]
where = "!(type != 'shown') && n >= `1`"
id = ["user.id", "id"]
time = "at"
items = "results[*]"
item = "product.sku || id"
rank = "n"
grade = "label"
team = "by"
page = "page"
page_size = "size"
visitor = "user.id || session[0].id"
attributes = { country = "geo[-1].country", device = "params[?key=='device' && on].value | [0]" }
experiments = { list = "tests", name = "name", variant = "arm" }
[sources.feedback]
where = "type == 'click' || type == 'order'"
id = "id"
time = "at"
kind = "type"
kinds = { click = "click", order = "purchase", "3" = "purchase" }
items = "lines || [product]"
item = "sku"
item_id = "query"
rank = "n"
rank_base = 0
grade = "stars"
visitor = "user.id"
"""
_RESULTS: Final = [
    {"product": {"sku": "s2"}, "n": 2, "label": None, "by": "new"},
    {"product": None, "id": "s1", "n": 1, "by": None},
    {"id": 7, "n": "3"},
]
_EVENT: Final[dict[str, Any]] = {
    "type": "shown",
    "n": 1,
    "id": "q1",
    "at": AT,
    "user": {"id": "u1"},
    "results": _RESULTS,
    "geo": [{"country": "FR"}, {"country": "DE"}],
    "params": [{"key": "x", "on": True}, {"key": "device", "on": True, "value": "ios"}],
    "tests": [{"name": "ranker", "arm": "new"}],
}
_ORDER: Final[dict[str, Any]] = {
    "type": "order",
    "id": "q1",
    "at": AT,
    "lines": [{"sku": "s1", "n": 0}, {"sku": "s9", "query": "q2", "stars": None}],
}
OBJECT_RECORDS: Final = [
    {"payload": {"events": [_EVENT, {**_EVENT, "page": 2, "size": 3}, _ORDER]}},
    {"payload": {"events": {**_EVENT, "results": [_RESULTS[0]], "user": {"id": 9}}}},
    {"payload": {"events": [{**_ORDER, "lines": [], "product": {"sku": "s3"}}, _OTHER, None]}},
    {"payload": None},
]
TEXTS: Final = """
each = "parse_json(body)"
time_format = "%s"
[[sources.impression]]
where = "header('x-kind') != 'a' && starts_with(url, '/search') && contains(url, 's')"
id = ["key()", "topic()", "id"]
time = "at"
items = "split(ids, ',')"
first_rank = "first"
user = "who || 'nobody'"
[[sources.impression]]
where = "ends_with(url, '/all')"
id = "id"
time = "kafka_time() || at"
items = "hits[].id"
no_items = "empty"
[sources.feedback]
where = "url == '/click'"
id = "id"
time = "at"
kind = "'click'"
items = "ids_shown"
"""
TEXT_RECORDS: Final = [
    {"body": json.dumps({"url": "/search", "id": "q1", "at": AT, "ids": "a,b,c", "who": "u"})},
    {"body": json.dumps({"url": "/search", "id": "q1", "at": AT, "ids": "a", "first": 3})},
    {"body": json.dumps([{"url": "/all", "id": 3, "at": AT, "hits": [{"id": "a"}, {}, None]}])},
    {"body": json.dumps([{"url": "/click", "id": 3, "at": AT, "ids_shown": ["a", 3]}, {}])},
]
TIMES: Final = """
time_format = "%s"
[sources.impression]
where = "shown"
id = "id"
time = "at"
items = "zip(ids, ranks)"
item = "[0].\\"the id\\" || [0].id"
rank = "[1]"
[sources.feedback]
where = "clicked || `false`"
id = "id"
time = "at"
rank = "n"
grade = "stars"
"""
TIME_RECORDS: Final = [
    {
        "shown": 1,
        "id": "q",
        "at": 1795176000,
        "ids": [{"the id": "a"}, {"id": "b"}],
        "ranks": [2, 1],
    },
    {"shown": "x", "id": "q", "at": "1795176000.5", "ids": [{"id": "b"}], "ranks": None},
    {"shown": 0, "id": 1, "at": 1795176000.25, "ids": None, "ranks": None},
    {"clicked": True, "id": "q", "at": 1795176001, "n": 2, "stars": 3},
    {"shown": "", "clicked": False},
]
OWN_FORMATS: Final[dict[str, tuple[str, Any]]] = {
    "plain ids": (PLAIN, [_SHOWN, _CLICKED, _OTHER]),
    "objects": (OBJECTS, OBJECT_RECORDS),
    "texts": (TEXTS % "auto", TEXT_RECORDS),
    "seconds": (TIMES % "s", TIME_RECORDS),
    "list or record": (
        'each = "events || @"' + PLAIN,
        [{"events": [_SHOWN, _CLICKED]}, _SHOWN, _OTHER],
    ),
}
