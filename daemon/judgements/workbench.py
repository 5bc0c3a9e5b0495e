"""Reader of the judgements of the OpenSearch Search Relevance Workbench, which are JSON. Pure.

An object is `{"query": …, "ratings": [{"docId": …, "rating": …}]}`, or a list of judgements as the
workbench imports and exports it, with such objects under `judgmentRatings`. A file has one object
on each line, or is one object over many lines.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from ..events.fields import shown
from .grades import Fault, Found, Judgement, Line

MOST_DOCUMENT_CHARACTERS: Final = 64 * 2**20
"""An object over many lines may have so many: it is decoded at once."""
_OBJECT_RULE: Final = "must be one JSON object"
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
    if _is_cut(first[1]) and (second is None or not second[1].lstrip().startswith("{")):
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
    """Each rating of an object, or what breaks a rule."""
    if not isinstance(value, dict):
        yield f"{shown(value)}: must be an object"
    elif "judgmentRatings" not in value:
        yield from _of_query(value, "")
    elif not isinstance(queries := value["judgmentRatings"], list):
        yield f"judgmentRatings={shown(queries)}: must be an array"
    else:
        for index, judged in enumerate(queries):
            yield from _of_query(judged, f"judgmentRatings[{index}].")


def _of_query(value: object, path: str) -> Iterator[_Rating | str]:
    """Each rating of a query; `path` leads to it."""
    if not isinstance(value, dict):
        yield f"{path.rstrip('.')}={shown(value)}: must be an object with query and ratings"
        return
    query, ratings = value.get("query"), value.get("ratings")
    if not isinstance(query, str):
        yield f"{path}query={shown(query)}: must be a string"
    elif not isinstance(ratings, list):
        yield f"{path}ratings={shown(ratings)} of query {shown(query)}: must be an array"
    else:
        for index, rating in enumerate(ratings):
            if isinstance(rating, dict):
                yield query, rating.get("docId"), rating.get("rating")
            else:
                where = f"{path}ratings[{index}]={shown(rating)} of query {shown(query)}"
                yield f"{where}: must be an object"
