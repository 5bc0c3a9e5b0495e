"""Files of judgements: three formats, one table of grades, and every fault by line and value."""

import gzip
import json
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.judgements import (
    FaultyJudgements,
    GradeCounts,
    Judgements,
    formats,
    grades,
    read,
)
from relevanced.daemon.queries import key_of
from relevanced.daemon.views import csv_text

QRELS: Final = '"red shoes" 0 d7 2\nshoes 0 d7 1\nshoes 0 d9 -1\n'
CSV: Final = "query,docid,rating\nred shoes,d7,2\nshoes,d7,1\nshoes,d9,-1\n"
WORKBENCH: Final = (
    '{"query": "red shoes", "ratings": [{"docId": "d7", "rating": "2.0"}]}\n'
    '{"query": "shoes", "ratings": [{"docId": "d7", "rating": 1}, {"docId": "d9", "rating": -1}]}\n'
)
GRADES: Final = {"red shoes": {"d7": 2.0}, "shoes": {"d7": 1.0, "d9": -1.0}}


def parsed(text: str | bytes, max_grade: float = 100.0) -> Judgements:
    data = text.encode() if isinstance(text, str) else text
    return read(data.splitlines(keepends=True), "f", max_grade)


def faults(text: str | bytes, max_grade: float = 100.0) -> list[str]:
    with pytest.raises(FaultyJudgements) as raised:
        parsed(text, max_grade)
    return [str(fault) for fault in raised.value.faults]


@pytest.mark.parametrize("text", [QRELS, CSV, WORKBENCH], ids=["qrels", "csv", "workbench"])
def test_formats_say_the_same(text: str) -> None:
    found = parsed(text)
    assert found.by_query == GRADES
    assert found.counts == GradeCounts(2, 3, 0, highest=2.0)


@pytest.mark.parametrize("text", [QRELS, CSV, WORKBENCH], ids=["qrels", "csv", "workbench"])
def test_marks_blank_lines_and_line_ends_do_not_matter(text: str) -> None:
    windows = "\ufeff" + text.replace("\n", "\r\n\r\n").rstrip()
    assert parsed(windows).by_query == GRADES


QUEPID: Final = (
    '{"queries": [{"query": "red shoes", "ratings": {"d7": 2}},'
    ' {"query": "shoes", "ratings": {"d7": "1", "d9": -1.0}}]}'
)
RATED: Final = [json.loads(line) for line in WORKBENCH.splitlines()]
HITS: Final = {"took": 1, "hits": {"hits": [{"_source": {"judgmentRatings": RATED}}]}}
RRE: Final = {
    "topics": [
        {
            "query_groups": [
                {
                    "queries": [{"placeholders": {"$query": "red shoes"}}],
                    "relevant_documents": {"2": ["d7"]},
                },
                {
                    "queries": [{"placeholders": {"$query": "shoes"}}],
                    "relevant_documents": {"d7": {"gain": 1}, "d9": {"gain": -1}},
                },
            ]
        }
    ]
}


@pytest.mark.parametrize(
    "text",
    [
        *(CSV.replace(",", separator) for separator in "\t;|"),
        CSV.replace("query,docid,rating", "Query-ID,corpus_id,score"),
        CSV.replace("query,docid,rating", "Search Term,Product Id,Grade"),
        QUEPID,
        *(json.dumps(value, indent=indent) for value in (RATED, HITS, RRE) for indent in (None, 1)),
    ],
)
def test_shapes_in_which_people_have_judgements(text: str) -> None:
    assert parsed(text).by_query == GRADES
    packed = gzip.compress(text[:20].encode()) + gzip.compress(text[20:].encode())
    assert parsed(packed).by_query == GRADES


def test_queries_that_nobody_has_rated_are_counted() -> None:
    found = parsed("query,docid,rating\nshoes,d7,1\nboots,,\nBoots,,\nshoes,,\n")
    assert str(found.counts) == "1 query, 1 judgement, 1 query without an item"


def test_ids_instead_of_texts_are_said() -> None:
    assert "every query is a number" in str(parsed("1 0 a 1\n2 0 a 1\n3 0 a 1\n").counts)
    assert "number" not in str(parsed("1 0 a 1\n2 0 a 1\nlego 0 a 1\n").counts)


def test_a_file_of_another_format_has_one_fault() -> None:
    assert len(faults("a b\n" * 2000)) == len(faults("2 qid:1 1:0.5\n" * 2000)) == 1
    assert len(faults("a 0 d7 1\n" + "a b\n" * 20)) == 20


def test_keys_are_those_of_the_traffic() -> None:
    text = '"  Red \tSHOES" 0 d7 2\n"ＲＥＤ shoes" 0 d8 1\n'
    assert parsed(text).by_query == {key_of("red shoes"): {"d7": 2.0, "d8": 1.0}}


def test_quotes_in_a_query() -> None:
    assert parsed('"say ""hi""" 0 d7 2\n').by_query == {'say "hi"': {"d7": 2.0}}
    assert parsed('query,docid,rating\n"say ""hi"", you",d7,2\n').by_query == {
        'say "hi", you': {"d7": 2.0}
    }


def test_between_tabs_a_query_needs_no_quotes() -> None:
    assert parsed("red shoes\t0\td1\t2\nboots\t0\td9\t1").by_query == {
        "red shoes": {"d1": 2.0},
        "boots": {"d9": 1.0},
    }
    assert parsed('"red shoes"\t0\td1\t2').by_query == {"red shoes": {"d1": 2.0}}
    for mixed in ("101 0\tD1\t2", "101 Q0 D1\t2", "101 0 D1 2\t"):
        assert parsed(mixed).by_query == {"101": {"D1": 2.0}}
    (fault,) = faults("red shoes\td1\t2")
    assert "must be 4 fields" in fault and "begins with the names of its columns" in fault


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("sku,grade,query\nd7,2,shoes, red\nd9,1,boots", 2),
        ("query,docid,rating\nboots,d9,1\nred, shoes,d7,2", 3),
    ],
)
def test_a_row_longer_than_its_header_is_a_fault(text: str, longer: int) -> None:
    (fault,) = faults(text)
    assert fault.startswith(f"f:{longer}: 4 fields: must have at most 3, as the header names them")
    assert parsed("sku,grade,query\nd9,1,boots,,").by_query == {"boots": {"d9": 1.0}}


@pytest.mark.parametrize("names", ["document,docno", "item,item_id", "product,sku", "doc,doc_id"])
def test_of_two_columns_of_the_item_that_of_its_id_counts(names: str) -> None:
    read = parsed(f"query,{names},rating\nred,A red shoe,d1,2")
    assert read.by_query == {"red": {"d1": 2.0}}


def test_csv_of_this_daemon_is_read_as_it_was(rng: np.random.Generator) -> None:
    """With the apostrophes that keep a spreadsheet from running an item or a query."""
    assert parsed("query,docid,rating\n'@nike,'-wtIMTCHWuI,2\n").by_query == {
        "@nike": {"-wtIMTCHWuI": 2.0}
    }
    for _ in range(50):
        pairs = {
            ("".join(rng.choice([*"'=-+@a1"], 4)) + "q", "".join(rng.choice([*"'=-+@a1"], 3)))
            for _ in range(5)
        }
        text = csv_text(("query", "docid", "rating"), ((*pair, 2) for pair in pairs))
        found = parsed(text).by_query
        expected = {(key_of(query), item) for query, item in pairs}
        assert {(query, item) for query, items in found.items() for item in items} == expected


def test_exports_of_quepid() -> None:
    """Columns in any order and spelling, others beside them, documents that nobody rated."""
    text = (
        "Team Name,Query Text,Doc ID,Doc Position,Rating\n"
        "Shop,red shoes,d7,1,2\n"
        "Shop,red shoes,d8,2,\n"
    )
    found = parsed(text)
    assert found.by_query == {"red shoes": {"d7": 2.0}} and found.unrated == 1


@pytest.mark.parametrize("indent", [None, 2])
def test_whole_list_of_the_workbench(indent: int | None) -> None:
    """As it is imported and exported, on one line or on many."""
    lines = [json.loads(line) for line in WORKBENCH.splitlines()]
    whole = {"name": "n", "type": "IMPORT_JUDGMENT", "judgmentRatings": lines}
    assert parsed(json.dumps(whole, indent=indent)).by_query == GRADES
    numbers = parsed('{"query": "a", "ratings": [{"docId": 7, "rating": 2}, {"docId": "8"}]}')
    assert numbers.by_query == {"a": {"7": 2.0}} and numbers.unrated == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("shoes 0 d7\n", "f:1: 'shoes 0 d7': must be 4 fields"),
        (
            "query;docid;grades\na;d7;1\n",
            "f:1: the columns 'query', 'docid', 'grades': must be query, docid",
        ),
        ("a b\n" * 10, "in quotes; a CSV file begins with the names of its columns, query,docid"),
        ("2 qid:1 1:0.5 2:0.1 # d7\n" * 5, "are features to learn from, without the text of a"),
        (
            '{"requests": [{"id": "a", "request": {}}]}',
            "f:1: a request of _rank_eval: the texts of",
        ),
        ('{"name": "n", "x": 1}', "f:1: an object with name, x: must have query and ratings, or"),
        ('[{"query": "a"}, 7]', "f:1: [0].ratings=null of query 'a': must be an array"),
        ('{"topics": [{}]}', "f:1: null of topics: must have query_groups"),
        (gzip.compress(CSV.encode())[:-9], "f: is not a complete gzip file"),
        ("a 0 d7 1\nred shoes 0 d7 1\n", "f:2: 'red shoes 0 d7 1': must be 4 fields"),
        ('"red shoes 0 d7 1\n', "f:1: '\"red shoes 0 d7 1': must be 4 fields"),
        ("a 0 d7 good\n", "f:1: grade='good' of item 'd7' of query 'a': must be a number"),
        ("a 0 d7 nan\n", "f:1: grade='nan' of item 'd7' of query 'a': must be a"),
        ("a 0 d7 1e400\n", "f:1: grade='1e400' of item 'd7' of query 'a': must be"),
        ("a 0 d7 101\n", "f:1: grade='101' of item 'd7' of query 'a': must be from -100 to 100"),
        ('" " 0 d7 1\n', "f:1: query=' ': must not be empty"),
        (f"a 0 {'d' * 257} 1\n", "must have 1 to 256 bytes, of query 'a'"),
        ("a 0 d7 1\nA 0 d7 2\n", "f:2: grade='2' of item 'd7' of query 'a': must be 1"),
        (b"a 0 d7 1\na 0 \xff 1\n", "f:2: 'a 0 � 1': must be UTF-8 text"),
        ("query,docid,rating\na,d7\n", "f:2: 2 fields: must have at least 3"),
        ("query,docid,rating\na,,1\n", "f:2: item='': must have 1 to 256 bytes, of query 'a'"),
        ('query,docid,rating\na,d7,1\n"b,d8,1\nc,d9,1\n', "f:3: the row that begins here"),
        ("query,docid,rating\n", "f: contains no judgement"),
        ("", "f: contains no judgement"),
        ("query,docid,rating\na,d7,\n", "f: contains no judgement"),
        ('{"query": "a"\n', 'f:1: \'{"query": "a"\': must be one JSON object'),
        ('{"query": 7, "ratings": []}\n', "f:1: query=7: must be a string"),
        ('{"query": "a", "ratings": 7}\n', "f:1: ratings=7 of query 'a': must be an array"),
        ('{"query": "a", "ratings": [7]}\n', "f:1: ratings[0]=7 of query 'a': must be an object"),
        ('{"query": "a", "ratings": [{"rating": 1}]}\n', "item=null: must be a string"),
        (
            '{"query": "a", "ratings": [{"docId": "d", "rating": true}]}',
            "grade=true of item 'd' of query 'a': must be a",
        ),
        ('{"judgmentRatings": {}}\n', "f:1: judgmentRatings=an object: must be an array"),
        ('{"judgmentRatings": [1]}\n', "f:1: judgmentRatings[0]=1: must be an object with query"),
        ('{"query": "a", "ratings": []}\n[]\n', "f:2: an array: must be an object"),
        ('{"query": "\\ud800", "ratings": []}\n', "f:1: "),
        ("[" * 100_000, "must be one JSON object or array"),
        ('{\n"query": "a",\n"ratings": [{]\n}\n', "f:3: '\"ratings\": [{]': must be one JSON"),
        ('{\n"query": "a",\n', 'f:2: \'"query": "a",\': must be one JSON object'),
        ('\n{\n"judgmentRatings": [{"query": 1}]\n}\n', "f:2: judgmentRatings[0].query=1: must"),
        ('{"query": "a", \n{"query": "b", "ratings": []}\n', 'f:1: \'{"query": "a", \''),
        ('{"a":' * 100_000, "must be one JSON object"),
    ],
)
def test_fault_names_line_value_and_rule(text: str | bytes, fault: str) -> None:
    assert fault in faults(text)[0]


def test_all_faults_are_listed_in_the_order_of_the_lines() -> None:
    text = b"a 0 d7 1\nb\n\xff\na 0 d7 2\nc 0 d x\n"
    assert [fault.split(":")[1] for fault in faults(text)] == ["2", "3", "4", "5"]


def test_repeated_judgement_is_one() -> None:
    assert parsed("a 0 d7 1\nA 0 d7 1.0\n").by_query == {"a": {"d7": 1.0}}


def test_grade_above_the_scale_is_a_fault() -> None:
    found = faults("a 0 d7 3\na 0 d8 4\n", max_grade=3)
    assert found == [
        "f:2: grade='4' of item 'd8' of query 'a': must be from -100 to 3;"
        " for a longer scale raise judgements.max_grade, or --max-grade"
    ]


def test_faults_and_judgements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FaultyJudgements) as raised:
        parsed("a 0 d7 1\n" + "a 0 d7 x\n" * (grades.MOST_FAULTS + 7))
    assert len(raised.value.faults) == grades.MOST_FAULTS and raised.value.more == 7
    assert str(raised.value).endswith("and 7 more")
    monkeypatch.setattr(grades, "MOST_JUDGEMENTS", 5)
    assert parsed("".join(f"a 0 d{n} 1\n" for n in range(5))).counts.judgements == 5
    assert faults("".join(f"a 0 d{n} 1\n" for n in range(6)))[0].startswith("f: has more than 5 ")


def test_line_that_is_too_long_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grades, "MOST_LINE_BYTES", 20)
    assert faults("a 0 d7 1\n" + "b" * 21 + "\nc\n") == ["f:2: must have at most 20 bytes"]


def test_object_over_many_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MOST_DOCUMENT_CHARACTERS", 30)
    text = json.dumps({"query": "a", "ratings": [{"docId": "d", "rating": 1}]}, indent=0)
    (fault,) = faults(text)
    assert fault.endswith("the object that begins in line 1: must have at most 30 characters")


def test_real_judgements_are_read(shared: Path) -> None:
    found = parsed((shared / "data" / "esci-judgments" / "esci_us_judgments.json").read_bytes())
    assert found.counts == GradeCounts(150, 6_678, 0, highest=100.0)


def test_any_bytes_are_judgements_or_faults(rng: np.random.Generator) -> None:
    """Cut, repeated and damaged files raise nothing else."""
    for _ in range(400):
        text = rng.choice([QRELS, CSV, WORKBENCH]).encode() * int(rng.integers(1, 3))
        damaged = bytearray(text)
        for _ in range(int(rng.integers(0, 6))):
            damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        start, end = sorted(rng.integers(0, len(damaged) + 1, 2).tolist())
        try:
            found = parsed(bytes(damaged[start:end]))
        except FaultyJudgements as error:
            assert error.faults
        else:
            assert found.counts.judgements and all(found.by_query.values())


@pytest.mark.parametrize(
    "text",
    [
        "search_query,product_id,relevance_grade\na,d7,2\n",
        "topic,iter,docno,rel\na,0,d7,2\n",
        "query docid rating\na d7 2\n",
        "Query;Doc ID;Rating\na;d7;2,0\n",
        "query,docid,rating\na,d7,2e0\n",
        '{"query": "a", "docId": "d7", "rating": 2}\n',
        '[{"query": "a", "docid": "d7", "rating": 2}]',
        '{"a": {"d7": 2}}',
        '{"_id": "x", "_source": {"judgmentRatings": [{"query": "a", "ratings": {"d7": "2.0"}}]}}',
        '{"requests": [{"params": {"q": "a"}, "ratings": [{"_id": "d7", "rating": 2}]}]}',
    ],
)
def test_shapes_that_other_tools_write(text: str) -> None:
    assert parsed(text).by_query == {"a": {"d7": 2.0}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "query,docid,rating\n" + "".join(f"a,d{n},Exact\n" for n in range(30)),
            "; all 30 ratings",
        ),
        ("a,d7,2\nb,d8,2\nc,d9,2\n", "; all 3 lines are like that"),
        ("query,product,esci\na,d7,E\nb,d7,S\n", "the columns 'query', 'product', 'esci': must"),
        ("query,docid,rating\na,d7,2\n".encode("utf-16"), "f: is UTF-16 text: must be UTF-8"),
    ],
)
def test_one_cause_is_one_fault(text: str | bytes, said: str) -> None:
    (fault,) = faults(text)
    assert said in fault


@pytest.mark.parametrize("word", ["query", "item", "topic", "rel"])
def test_a_query_may_be_the_name_of_a_column(word: str) -> None:
    assert parsed(f"{word} 0 d7 1\n").by_query == {word: {"d7": 1.0}}
