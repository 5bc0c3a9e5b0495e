"""Readers of TREC qrels and CSV, line by line, and which format a file of judgements has. Pure.

A reader takes the lines of a file as bytes, also compressed by gzip, and yields what they say; it
keeps no line.

Readers of judgements as JSON. A query is `{"query": …, "ratings": [{"docId": …, "rating": …}]}`;
Quepid has the ratings by item, `{"d7": 2}`. Such queries stand alone, in an array, or in an object
under `judgmentRatings` (the Search Relevance Workbench, whose API answers with such objects among
`hits`) or `queries` (Quepid). RRE has groups of queries under `topics`. A file has one value on
each line, or is one value over many lines.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from ..events import shown, unescaped_formula
from .faults import Fault
from .grades import (
    HIGHEST_GRADE,
    MOST_LINE_BYTES,
    Found,
    Judgement,
    Judgements,
    Line,
    collect,
    header_of,
    rows,
    texts,
    with_faults,
)

MOST_DOCUMENT_CHARACTERS: Final = 64 * 2**20
"""An object over many lines may have so many: it is decoded at once."""
_OBJECT_RULE: Final = "must be one JSON object or array"
_TRUNCATED: Final = "truncated"
"""Stands in the decoder's message where a text ends too early."""
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_decode: Final = msgspec.json.Decoder().decode

_Rating: TypeAlias = tuple[str, object, object]
"""(query, item, grade)."""


def read_json(lines: Iterator[Line], file: str) -> Found:
    """Yield what the lines of a file say, of which there is at least one.

    Faults in an object over many lines name its first line, and where in the object they are.
    """
    first, second = next(lines), next(lines, None)
    rest = lines if second is None else chain([second], lines)
    opens = first[1].lstrip().startswith("[") or first[1].rstrip().endswith("[")
    goes_on = second is None or opens or not second[1].lstrip().startswith("{")
    if goes_on and _is_cut(first[1]):
        yield from _document(chain([first], rest), file)
        return
    for number, text in chain([first], rest):
        try:
            value = _decode(text)
        except (ValueError, RecursionError) as error:
            yield Fault(file, number, f"{shown(text)}: {_OBJECT_RULE}: {error}")
            continue
        yield from _placed(_of_object(value), file, number)


def _is_cut(text: str) -> bool:
    """Whether the text is the beginning of an object."""
    try:
        _decode(text)
    except (ValueError, RecursionError) as error:
        return _TRUNCATED in str(error)
    return False


def _document(lines: Iterator[Line], file: str) -> Found:
    """The lines as one object."""
    numbers: list[int] = []
    texts: list[str] = []
    size = 0
    for number, text in lines:
        numbers.append(number)
        texts.append(text)
        size += len(text)
        if size > MOST_DOCUMENT_CHARACTERS:
            rule = f"must have at most {MOST_DOCUMENT_CHARACTERS:,} characters"
            yield Fault(file, number, f"the object that begins in line {numbers[0]}: {rule}")
            return
    data = "\n".join(texts).encode()
    try:
        value = _decode(data)
    except (ValueError, RecursionError) as error:
        at = _BYTE.search(str(error))
        index = data[: int(at[1])].count(b"\n") if at else len(texts) - 1
        reason = f"{shown(texts[index].strip())}: {_OBJECT_RULE}: {error}"
        yield Fault(file, numbers[index], reason)
    else:
        yield from _placed(_of_object(value), file, numbers[0])


def _placed(found: Iterator[_Rating | str], file: str, line: int) -> Found:
    for each in found:
        yield Fault(file, line, each) if isinstance(each, str) else Judgement(line, *each)


def _of_object(value: object) -> Iterator[_Rating | str]:
    """Each rating of a value, or what breaks a rule."""
    if isinstance(value, list) and value:
        yield from _of_queries(value, "")
    elif not isinstance(value, dict):
        yield f"{shown(value)}: must be an object"
    elif shape := next((name for name in _SHAPES if name in value), None):
        yield from _SHAPES[shape](value[shape])
    elif name := next((name for name in _LISTS if name in value), None):
        yield from _of_queries(value[name], name)
    elif "query" in value or "ratings" in value:
        yield from _of_query(value, "")
    elif value and all(map(_are_grades, value.values())):
        yield from ((q, item, grade) for q, of in value.items() for item, grade in of.items())
    else:
        found = ", ".join(list(value)[:_MOST_NAMES]) or "no member"
        yield f"an object with {found}: must have query and ratings, or {' or '.join(_LISTS)}"


def _of_hits(value: object) -> Iterator[_Rating | str]:
    """Each rating of what a search for lists of judgements answers."""
    hits = value.get("hits") if isinstance(value, dict) else None
    return chain.from_iterable(map(_of_object, hits if isinstance(hits, list) else ()))


def _of_topics(value: object) -> Iterator[_Rating | str]:
    """Each rating of the topics of RRE."""
    return chain.from_iterable(map(_of_topic, value if isinstance(value, list) else (value,)))


def _of_requests(value: object) -> Iterator[_Rating | str]:
    """Each rating of a request of _rank_eval whose queries are made by templates of one text."""
    for request in value if isinstance(value, list) else ():
        params = request.get("params") if isinstance(request, dict) else None
        texts = [text for text in (params or {}).values() if isinstance(text, str)]
        ratings = request.get("ratings") if isinstance(request, dict) else None
        if len(texts) != 1 or not isinstance(ratings, list):
            yield (
                "a request of _rank_eval: the texts of its queries are somewhere in their DSL;"
                " write a CSV file with the columns query, docid and rating"
            )
            return
        yield from _of_query({"query": texts[0], "ratings": ratings}, "requests: ")


def _are_grades(value: object) -> bool:
    """Whether a value is the grades of items, by their ids."""
    return isinstance(value, dict) and all(type(grade) in (int, float) for grade in value.values())


_SHAPES: Final[Mapping[str, Callable[[object], Iterator[_Rating | str]]]] = {
    "hits": _of_hits,
    "_source": _of_object,
    "requests": _of_requests,
    "topics": _of_topics,
}
"""What names the shape of an object → how its value is read."""
_LISTS: Final = ("judgmentRatings", "queries")
"""What has the queries of a whole list of judgements."""
_MOST_NAMES: Final = 8
_ITEMS: Final = ("docId", "docid", "doc_id", "id", "_id")
_PLACEHOLDER: Final = "$query"


def _of_queries(value: object, path: str) -> Iterator[_Rating | str]:
    if not isinstance(value, list):
        yield f"{path}={shown(value)}: must be an array"
        return
    for index, judged in enumerate(value):
        yield from _of_query(judged, f"{path}[{index}].")


def _of_topic(value: object) -> Iterator[_Rating | str]:
    """Each rating of a topic of RRE: documents by grade, or grades by document, of all queries of a
    group."""
    groups = value.get("query_groups") if isinstance(value, dict) else None
    for group in groups if isinstance(groups, list) else (None,):
        queries = group.get("queries") if isinstance(group, dict) else None
        documents = group.get("relevant_documents") if isinstance(group, dict) else None
        if not isinstance(queries, list) or not isinstance(documents, dict):
            yield f"{shown(group)} of topics: must have query_groups with queries and documents"
            continue
        for query in queries:
            texts = query.get("placeholders") if isinstance(query, dict) else None
            text = texts.get(_PLACEHOLDER) if isinstance(texts, dict) else None
            if not isinstance(text, str):
                yield f"{_PLACEHOLDER}={shown(text)} of a query of topics: must be a string"
                continue
            for name, documented in documents.items():
                if isinstance(documented, list):
                    yield from ((text, item, name) for item in documented)
                else:
                    gain = documented.get("gain") if isinstance(documented, dict) else documented
                    yield text, name, gain


def _of_query(value: object, path: str) -> Iterator[_Rating | str]:
    """Each rating of a query; `path` leads to it."""
    if not isinstance(value, dict):
        yield f"{path.rstrip('.')}={shown(value)}: must be an object with query and ratings"
        return
    query, ratings = value.get("query"), value.get("ratings")
    item = next((value[name] for name in _ITEMS if name in value), None)
    if not isinstance(query, str):
        yield f"{path}query={shown(query)}: must be a string"
    elif ratings is None and item is not None and "rating" in value:
        yield query, item, value["rating"]
    elif isinstance(ratings, dict):
        yield from ((query, item, grade) for item, grade in ratings.items())
    elif not isinstance(ratings, list):
        yield f"{path}ratings={shown(ratings)} of query {shown(query)}: must be an array"
    else:
        for index, rating in enumerate(ratings):
            if isinstance(rating, dict):
                item = next((rating[name] for name in _ITEMS if name in rating), None)
                yield query, item, rating.get("rating")
            else:
                where = f"{path}ratings[{index}]={shown(rating)} of query {shown(query)}"
                yield f"{where}: must be an object"


_COLUMNS: Final = {
    "query": (
        *("query", "querytext", "querystring", "searchterm", "searchquery", "search", "keyword"),
        *("keywords", "term", "phrase", "queryid", "qid", "topic", "topicid"),
    ),
    "docid": (
        *("docid", "documentid", "docno", "itemid", "productid", "pid", "sku", "corpusid"),
        *("document", "doc", "item", "product", "url"),
    ),
    "rating": (
        *("rating", "grade", "relevance", "relevancegrade", "relevancescore", "relevancelabel"),
        *("judgment", "judgement", "label", "score", "rel", "gain"),
    ),
}
"""Column of a CSV file → its names in lower case, without blanks, hyphens and underscores. Of two
that a file has, the first counts: the text of a query, the id of an item."""
_SEPARATORS: Final = (",", "\t", ";", "|", " ")
_GZIP: Final = b"\x1f\x8b"
MOST_UNPACKED_BYTES: Final = 2**30
"""A compressed file may have so many when it is unpacked."""
_STEP_BYTES: Final = 2**20
_MOST_WRONG: Final = 10
"""After so many lines that are none, with none before them that is, a file is of another format."""
_FEATURES: Final = re.compile(r"\S+\s+qid:")


def read(lines: Iterable[bytes], file: str, max_grade: float = HIGHEST_GRADE) -> Judgements:
    """Read a file of judgements of any format: TREC qrels, CSV with the columns `query`, `docid`
    and `rating`, or JSON.

    `lines` have at most `MOST_LINE_BYTES` each; one that is longer may end there. `file` is its
    name in messages. Raises FaultyJudgements with every fault, in the order of the lines.

    >>> read([b'"red shoes" 0 d7 2'], "q").by_query
    {'red shoes': {'d7': 2.0}}
    """
    return collect(judgements_of(lines, file), file, max_grade)


def judgements_of(lines: Iterable[bytes], file: str) -> Found:
    """Yield what a file of any format says, line by line."""
    faults: list[Fault] = []
    found = texts(_unpacked(iter(lines), file, faults), file, faults)
    first = next(found, None)
    judgements = () if first is None else _reader(first[1])(chain([first], found), file)
    yield from with_faults(iter(judgements), faults)


def _reader(first_line: str) -> Callable[[Iterator[Line], str], Found]:
    """The reader of a file that begins with this line."""
    if first_line.lstrip().startswith(("{", "[")):
        return read_json
    return _csv if columns_of(first_line) is not None else _qrels


def _unpacked(lines: Iterator[bytes], file: str, faults: list[Fault]) -> Iterator[bytes]:
    """The lines; those of the content where the file is compressed. What breaks off is a fault."""
    first = next(lines, b"")
    if not first.startswith(_GZIP):
        yield from chain([first], lines)
        return
    unpack, rest, size = zlib.decompressobj(wbits=31), b"", 0
    try:
        for part in chain([first], lines):
            while part:
                rest += (more := unpack.decompress(part, _STEP_BYTES))
                size, part = size + len(more), unpack.unconsumed_tail
                if unpack.eof and unpack.unused_data:  # files that were put together
                    part, unpack = unpack.unused_data, zlib.decompressobj(wbits=31)
                *whole, rest = rest.split(b"\n")
                yield from (line + b"\n" for line in whole)
                if size > MOST_UNPACKED_BYTES or len(rest) > MOST_LINE_BYTES:
                    rule = f"must have at most {MOST_UNPACKED_BYTES:,} bytes when it is unpacked"
                    faults.append(Fault(file, 0, rule))
                    return
    except zlib.error as error:
        faults.append(Fault(file, 0, f"is not a complete gzip file: {error}"))
        return
    yield rest
    if not unpack.eof:
        faults.append(Fault(file, 0, "is not a complete gzip file"))


def _qrels(lines: Iterator[Line], file: str) -> Found:
    """TREC qrels, `query iteration item grade`: between blanks, a query of several words stands in
    double quotes, where `""` is one quote; between tabs it need not."""
    rule = "must be 4 fields, query iteration item grade, with a query of several words in quotes"
    or_csv = "; a CSV file begins with the names of its columns, query,docid,rating among them"
    wrong: list[Fault] | None = []
    for number, text in lines:
        query, rest = _topic(text.strip())
        if wrong == [] and _FEATURES.match(text):
            reason = f"{shown(text)}: are features to learn from, without the text of a query"
            yield Fault(file, number, f"{reason}; the query, its item and the grade {rule}")
            return
        if query is not None and len(rest) == 3:
            yield from wrong or ()
            wrong = None
            yield Judgement(number, query, rest[1], rest[2])
            continue
        if wrong == [] and (names := _names_of(text)):
            reason = f"the columns {', '.join(map(shown, names))}: must be query, docid and rating"
            yield Fault(file, number, f"{reason}, or other usual names of these, and any others")
            return
        fault = Fault(file, number, f"{shown(text)}: {rule}{or_csv}")
        or_csv = ""
        if wrong is None:
            yield fault
            continue
        wrong.append(fault)
        if len(wrong) == _MOST_WRONG:
            yield _all_alike(wrong, f"the first {_MOST_WRONG} lines are like that")
            return
    if wrong:
        yield _all_alike(wrong, f"all {len(wrong)} lines are like that")


def _all_alike(wrong: Sequence[Fault], words: str) -> Fault:
    """One fault for lines of which none is right."""
    first = wrong[0]
    return first if len(wrong) == 1 else replace(first, reason=f"{first.reason}; {words}")


def _names_of(header: str) -> Sequence[str]:
    """The names of columns in the first line of a file, one of which is usual; none where it names
    none."""
    known = {name for spellings in _COLUMNS.values() for name in spellings}
    for separator in _SEPARATORS[:-1]:
        names = header_of(header, separator)
        if len(names) > 1 and known.intersection(map(_plain, names)):
            return names
    return ()


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


def _topic(text: str) -> tuple[str | None, Sequence[str]]:
    """(the query, the other fields) of a line; None for a query whose quotes do not end."""
    if not text.startswith('"'):
        query, *rest = text.split() if "\t" not in text else _between_tabs(text)
        return query, rest
    end = 1
    while (end := text.find('"', end)) != -1:
        if text[end + 1 : end + 2] != '"':
            return text[1:end].replace('""', '"'), text[end + 1 :].split()
        end += 2
    return None, ()


def _between_tabs(text: str) -> Sequence[str]:
    """The fields of a line, of which the query may have several words. Some files have blanks as
    well as tabs, which the usual iteration tells."""
    fields, words = [field.strip() for field in text.split("\t")], text.split()
    return words if len(fields) != 4 and words[1:2] in (["0"], ["Q0"]) else fields


def _csv(lines: Iterator[Line], file: str) -> Found:
    """CSV with a header, as Quepid exports it, by any separator; other columns are ignored. A text
    with an apostrophe before a formula, as CSV of this daemon has it, is read without."""
    _, header = next(lines)
    columns = columns_of(header)
    assert columns is not None, "the header made this the reader of it"
    separator, indices = columns
    for row in rows(lines, file, header_of(header, separator), indices, separator):
        if isinstance(row, Fault):
            yield row
        else:
            number, (query, docid, rating) = row
            yield Judgement(number, unescaped_formula(query), unescaped_formula(docid), rating)


def columns_of(header: str) -> tuple[str, tuple[int, int, int]] | None:
    """Return (separator, where query, docid and rating are) of the first line of a CSV file; None
    where it does not name all of them."""
    for separator in _SEPARATORS:
        if (indices := _indices(header_of(header, separator))) is not None:
            return separator, indices
    return None


def _indices(header: Sequence[str]) -> tuple[int, int, int] | None:
    names = [*map(_plain, header)]
    found = [
        next((names.index(name) for name in spellings if name in names), None)
        for spellings in _COLUMNS.values()
    ]
    query, docid, rating = found
    return None if query is None or docid is None or rating is None else (query, docid, rating)
