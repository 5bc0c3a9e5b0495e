"""Files of classes: one class for each query, and every fault by line and value."""

import pytest

from relevanced.daemon.judgements import (
    ClassCounts,
    FaultyJudgements,
    QueryClasses,
    grades,
    read_classes,
)


def parsed(text: str | bytes) -> QueryClasses:
    data = text.encode() if isinstance(text, str) else text
    return read_classes(data.splitlines(keepends=True), "f")


def faults(text: str | bytes) -> list[str]:
    with pytest.raises(FaultyJudgements) as raised:
        parsed(text)
    return [str(fault) for fault in raised.value.faults]


def test_queries_are_those_of_the_traffic() -> None:
    found = parsed(
        '\ufeffID,Class,Query\r\n1, head ,"Red, SHOES"\r\n\r\n2,torso,ｓｈｏｅｓ\r\n3,head,b\r\n'
    )
    assert found.by_query == {"red, shoes": "head", "shoes": "torso", "b": "head"}
    assert found.counts == ClassCounts({"head": 2, "torso": 1})
    assert str(found.counts) == "2 queries head, 1 query torso"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["f: classes no query"]),
        ("query,class\n", ["f: classes no query"]),
        ("shoes,head\n", ["f:1: 'shoes,head': must name the columns query,class"]),
        ("query,class\n ,head\n", ["f:2: query='': must not be empty"]),
        ("query,class\na,\n", ["f:2: class='': must have 1 to 256 bytes, of query 'a'"]),
        ("query,class\na\n", ["f:2: 1 fields: must have at least 2, as the header names them"]),
        (
            "query,class\na,head\nA,tail\na,head\n",
            ["f:3: class='tail' of query 'a': must be 'head', its class further up"],
        ),
        ("query,class\na,b\"\n\"c", ["f:3: the row that begins here is not CSV"]),
        (b"query,class\na\xff,head\nb,\n", ["f:2: 'a\ufffd,head': must be UTF-8", "f:3: class=''"]),
    ],
)  # fmt: skip
def test_faults_are_named_with_line_value_and_rule(text: str | bytes, expected: list[str]) -> None:
    found = faults(text)
    assert len(found) == len(expected)
    assert all(one.startswith(rule) for one, rule in zip(found, expected, strict=True)), found


def test_what_a_file_may_class_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grades, "MOST_CLASSES", 2)
    assert faults("query,class\na,1\nb,2\nc,3\n") == [
        "f:4: class='3': a file must name at most 2 classes"
    ]
    monkeypatch.setattr(grades, "MOST_QUERIES", 2)
    assert "more than 2 queries" in faults("query,class\na,1\nb,2\nc,2\n")[0]
    monkeypatch.setattr(grades, "MOST_LINE_BYTES", 20)
    assert faults("query,class\n" + "a" * 30)[0] == "f:2: must have at most 20 bytes"
