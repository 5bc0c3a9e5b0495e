"""TREC files: what is parsed, and what the faults report."""

import gzip
import json

import pytest

from relevanced.daemon.tools.trec import TrecError, parse_qrels, parse_run

QRELS = b"301 0 d1 1\n301 0 d2 -1\n\n302\t0\td1\t3\n"
RUN = b"301 Q0 d1 7 2.5 bm25\n301\tQ0  d2\t1 1e-3 bm25 more words\n"


def faults_of(data: bytes, *, run: bool) -> list[str]:
    with pytest.raises(TrecError) as error:
        (parse_run if run else parse_qrels)(data, "file")
    return [str(fault) for fault in error.value.faults]


def test_judgements_keep_the_order_of_the_file() -> None:
    assert parse_qrels(QRELS, "q") == {"301": {"d1": 1, "d2": -1}, "302": {"d1": 3}}


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\n301\td1\t1\n301\td2\t-1\n302\td1\t3.0\n",
        "rating,query,docid\r\n1,301,d1\r\n-1,301,d2\r\n3,302,d1\r\n,303,\r\n",
    ],
)
def test_judgements_with_the_names_of_their_columns(text: str) -> None:
    assert parse_qrels(text.encode(), "q") == parse_qrels(QRELS, "q")
    with pytest.raises(TrecError, match="1 fields: must have those that the first line names"):
        parse_qrels(text.encode() + b"304\n", "q")


def test_words_after_the_tag_are_ignored() -> None:
    run = parse_run(RUN, "r")
    assert run.tag == "bm25"
    assert [(result.item, result.score) for result in run.results["301"]] == [
        ("d1", 2.5),
        ("d2", 0.001),
    ]


def test_byte_order_marks_of_files_that_were_put_together_are_skipped() -> None:
    mark = b"\xef\xbb\xbf"
    assert parse_qrels(mark + QRELS, "q") == parse_qrels(QRELS, "q")
    assert parse_qrels(gzip.compress(mark + QRELS), "q") == parse_qrels(QRELS, "q")
    first, second = RUN.splitlines(keepends=True)
    assert parse_run(mark + first + mark + second, "r") == parse_run(RUN, "r")


def test_gzip_and_windows_line_ends_are_parsed_alike() -> None:
    assert parse_qrels(gzip.compress(QRELS), "q.gz") == parse_qrels(QRELS, "q")
    assert parse_run(RUN.replace(b"\n", b"\r\n"), "r") == parse_run(RUN, "r")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"301 d1 1", "3 fields: must be 4, query iteration item grade"),
        (b"301 0 d1 1 x", "5 fields: must be 4"),
        (b"301 0 d9 high", "grade=high: must be a number"),
        (b"301 0 d1 1", "item d1 of query 301 is judged twice"),
        (b"301 0 d\xff 1", "must be UTF-8 text"),
    ],
)
def test_invalid_judgement_is_reported_with_its_line(line: bytes, reason: str) -> None:
    found = faults_of(QRELS + line + b"\n", run=False)
    assert len(found) == 1
    assert found[0].startswith(f"file:5: {reason}")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"301 Q0 d9 1 0.5", "5 fields: must be 6, query Q0 item rank score tag"),
        (b"301 Q0 d9 1 high x", "score=high: must be a number"),
        (b"301 Q0 d9 1 nan x", "score=nan: must be a number"),
        (b"301 Q0 d2 3 0.1 x", "item d2 of query 301 is returned twice"),
        (b"301 Q0 d9 1 " + b"9" * 200 + b"x t", f"score={'9' * 60}…: must be a number"),
    ],
)
def test_invalid_result_is_reported_with_its_line(line: bytes, reason: str) -> None:
    found = faults_of(RUN + line + b"\n", run=True)
    assert len(found) == 1
    assert found[0].startswith(f"file:3: {reason}")


def test_all_faults_are_reported_at_once() -> None:
    found = faults_of(b"a\n301 0 d1 1\nb c\n", run=False)
    assert [fault.split(":")[1] for fault in found] == ["1", "3"]


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_empty_file_is_a_fault(data: bytes) -> None:
    assert faults_of(data, run=True) == ["file: contains no line"]


def test_broken_gzip_is_a_fault() -> None:
    (found,) = faults_of(gzip.compress(RUN)[:-9], run=True)
    assert found.startswith("file: is not a complete gzip file")


@pytest.mark.parametrize(
    "text",
    [
        '"red shoes" 0 d1 1.5\n',
        "query,docid,rating\nred shoes,d1,1.5\n",
        '{"query": "red shoes", "ratings": {"d1": 1.5}}',
        '[{"query": "red shoes", "ratings": [{"docId": "d1", "rating": "1.5"}]}]',
    ],
)
def test_judgements_are_read_in_the_shapes_that_the_daemon_reads(text: str) -> None:
    assert parse_qrels(text.encode(), "q") == {"red shoes": {"d1": 1.5}}
    assert [*parse_run(b'"red shoes" Q0 d1 1 2.5 x\n', "r").results] == ["red shoes"]


REQUEST = {
    "requests": [
        {"id": "JFK", "request": {}, "ratings": [{"_index": "m", "_id": "d3", "rating": 3}]},
        {"id": "other", "request": {}, "ratings": [{"_index": "m", "_id": "d9", "rating": 1}]},
    ]
}
ANSWER = {
    "metric_score": 0.4,
    "details": {
        "JFK": {
            "unrated_docs": [{"_index": "m", "_id": "d1"}],
            "hits": [
                {"hit": {"_index": "m", "_id": "d1", "_score": None}, "rating": None},
                {"hit": {"_index": "m", "_id": "d3", "_score": 9.5}, "rating": 3},
            ],
        },
        "other": {"hits": []},
    },
}


def test_a_request_and_an_answer_of_rank_eval_join_by_the_ids_of_requests() -> None:
    request, answer = (json.dumps(each).encode() for each in (REQUEST, ANSWER))
    assert parse_qrels(request, "q") == {"JFK": {"d3": 3.0}, "other": {"d9": 1.0}}
    run = parse_run(answer, "answer.json")
    assert {query: [each.item for each in of] for query, of in run.results.items()} == {
        "JFK": ["d1", "d3"],
        "other": [],
    }
    assert run.results["JFK"][0].score > run.results["JFK"][1].score
    with pytest.raises(TrecError, match="details of _rank_eval: Object missing required field"):
        parse_run(b'{"details": {"a": {"hits": [{"hit": {}}]}}}', "r")
