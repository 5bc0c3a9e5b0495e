"""`Lists`: a batch of result lists as arrays. A row is a list, a column is a rank.

`Lists.of` validates values from outside; the kernels trust shapes and ranges and check nothing.

Division with a stated value for 0 in the denominator, and sorted distinct values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Grades: TypeAlias = (
    Sequence[Sequence[float | None]] | NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
)


@dataclass(frozen=True, eq=False)
class Lists:
    """`n` result lists, padded to `depth` ranks. `Lists.of` builds one from plain values."""

    gains: Floats
    """(n, depth) grade of the item at each rank; 0 if unjudged, 0 for padding."""
    lengths: Integers
    """(n,) number of items shown, at most depth."""
    judged: Booleans
    """(n, depth) whether the item at this rank is judged, with any grade that counts."""
    first_feedback_s: Floats | None = None
    """(n,) seconds from the impression to its first feedback; NaN without feedback."""
    weights: Floats | None = None
    """(n, at least max(depth, 1)) 1 / propensity of each rank, clipped; a row of NaN where the
    propensities are unknown."""
    pool: Floats | None = None
    """(n, width) grades of all judged items of the query, shown or not; padded with NaN."""
    collection_size: Integers | None = None
    """(n,) number of items that could have been returned."""
    known: Booleans | None = None
    """(n, depth) whether the user knew this item before."""
    known_relevant: Integers | None = None
    """(n,) number of relevant items that the user knew before, shown or not."""
    assessed: Booleans | None = None
    """(n, depth) whether the item is among the judgements at all, also with a grade that does not
    count; None: as `judged`."""
    subtopics: Floats | None = None
    """(n, depth, subtopics) grade of the item at each rank for each subtopic of the query; 0 where
    it has none."""
    pool_subtopics: Floats | None = None
    """(n, width, subtopics) the same of all judged items of the query, shown or not."""

    def __len__(self) -> int:
        return len(self.gains)

    @property
    def depth(self) -> int:
        """Number of ranks of the arrays."""
        return int(self.gains.shape[1])

    @classmethod
    def of(
        cls,
        grades: Grades,
        *,
        lengths: Sequence[int] | Integers | None = None,
        first_feedback_s: Sequence[float | None] | Floats | None = None,
        weights: Sequence[Sequence[float]] | Floats | None = None,
        pool: Grades | None = None,
        collection_size: Sequence[int] | Integers | None = None,
        known: Sequence[Sequence[bool]] | Booleans | None = None,
        known_relevant: Sequence[int] | Integers | None = None,
        assessed: Sequence[Sequence[bool]] | Booleans | None = None,
        subtopics: Floats | None = None,
        pool_subtopics: Floats | None = None,
    ) -> "Lists":
        """Validate and pad: one sequence of grades for each list, None or NaN for an unjudged item.

        The other arguments are the fields of the same names; `lengths` is by default that of the
        sequences. Raises ValueError with the value and the rule.

        >>> lists = Lists.of([[1, None, 2], [0]])
        >>> lists.gains.tolist(), lists.lengths.tolist()
        ([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]], [3, 1])
        >>> lists.judged.tolist()
        [[True, False, True], [True, False, False]]
        """
        padded, shown = _padded(grades, "grades")
        count = len(padded)
        if lengths is not None:
            shown = _checked_lengths(lengths, padded)
        inside = np.arange(padded.shape[1]) < shown[:, None]
        judged = inside & ~np.isnan(padded)
        return cls(
            gains=by_column(np.where(judged, padded, 0.0)),
            lengths=shown,
            judged=judged,
            first_feedback_s=_optional_seconds(first_feedback_s, count),
            weights=None if weights is None else _checked_weights(weights, padded.shape),
            pool=None if pool is None else _checked_pool(pool, count),
            collection_size=_counts(collection_size, count, "collection_size"),
            known=None if known is None else _flags(known, padded.shape, "known"),
            known_relevant=_counts(known_relevant, count, "known_relevant"),
            assessed=None if assessed is None else _flags(assessed, padded.shape, "assessed"),
            subtopics=_checked_subtopics(subtopics, (count, padded.shape[1])),
            pool_subtopics=_checked_subtopics(pool_subtopics, (count,)),
        )

    def blocks(self, rows: int) -> Iterator["Lists"]:
        """Yield the lists in parts of at most `rows`, with gains stored by column."""
        if len(self) <= rows and is_by_column(self.gains):
            yield self
            return
        present = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        for start in range(0, len(self), rows):
            end = start + rows
            part = {name: getattr(self, name)[start:end] for name in present}
            yield Lists(**part | {"gains": by_column(part["gains"])})


def by_column(values: Floats) -> Floats:
    """The array in Fortran order, so that each column is contiguous; copied only if necessary.

    Kernels read one rank of all lists at a time.

    >>> by_column(np.zeros((3, 2))).strides
    (8, 24)
    """
    return values if is_by_column(values) else np.asfortranarray(values)


def is_by_column(values: Floats) -> bool:
    """Whether each column is contiguous in memory.

    >>> is_by_column(np.zeros((3, 2)))
    False
    """
    return values.strides[0] == values.itemsize


def _padded(grades: Grades, what: str) -> tuple[Floats, Integers]:
    """(n, longest) grades, NaN for unjudged items and padding, and the lengths (n,)."""
    if isinstance(grades, np.ndarray):
        if grades.ndim != 2:
            raise ValueError(
                f"{what} of shape {grades.shape}: must be two-dimensional, (lists, ranks)"
            )
        array = np.array(grades, dtype=np.float64)
        lengths = np.full(len(array), array.shape[1], dtype=np.int64)
    else:
        rows = [_row(values, index, what) for index, values in enumerate(grades)]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        array = np.full((len(rows), int(lengths.max(initial=0))), np.nan)
        for index, row in enumerate(rows):
            array[index, : len(row)] = row
    if np.isinf(array).any():
        row_index, column = np.argwhere(np.isinf(array))[0]
        raise ValueError(
            f"{what}[{row_index}][{column}]={array[row_index, column]}: must be finite"
        )
    return array, lengths


def _row(values: Sequence[float | None] | Floats, index: int, what: str) -> Floats:
    try:
        row = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what}[{index}]={values!r}: must be a sequence of numbers") from None
    if row.ndim != 1:
        raise ValueError(f"{what}[{index}]={values!r}: must be a flat sequence of numbers")
    return row


def _checked_lengths(lengths: Sequence[int] | Integers, padded: Floats) -> Integers:
    shown = _integers(lengths, len(padded), "lengths")
    invalid = np.flatnonzero((shown < 0) | (shown > padded.shape[1]))
    if invalid.size:
        raise ValueError(
            f"lengths[{invalid[0]}]={shown[invalid[0]]}: must be from 0 to {padded.shape[1]} ranks"
        )
    return shown


def _integers(values: Sequence[int] | Integers, count: int, what: str) -> Integers:
    array = np.asarray(values)
    if array.shape != (count,):
        raise ValueError(
            f"{what} of shape {array.shape}: must be one value for each list, ({count},)"
        )
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{what} of type {array.dtype}: must be whole numbers")
    return array.astype(np.int64)


def _counts(values: Sequence[int] | Integers | None, count: int, what: str) -> Integers | None:
    if values is None:
        return None
    array = _integers(values, count, what)
    if (array < 0).any():
        raise ValueError(f"{what}: the lowest is {array.min()}, must be >= 0")
    return array


def _optional_seconds(values: Sequence[float | None] | Floats | None, count: int) -> Floats | None:
    if values is None:
        return None
    seconds = _row(values, 0, "first_feedback_s")
    if seconds.shape != (count,):
        raise ValueError(
            f"first_feedback_s of shape {seconds.shape}: must be one for each list, ({count},)"
        )
    return seconds


def _checked_weights(weights: Sequence[Sequence[float]] | Floats, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 2 or len(array) != shape[0] or array.shape[1] < max(shape[1], 1):
        rule = f"must be ({shape[0]}, at least {max(shape[1], 1)}): one for each list and rank"
        raise ValueError(f"weights of shape {array.shape}: {rule}")
    unknown = np.isnan(array)
    if not (unknown | (np.isfinite(array) & (array > 0))).all():
        raise ValueError(f"weights: the lowest is {np.nanmin(array)}, must be finite and > 0")
    if (unknown.any(axis=1) != unknown.all(axis=1)).any():
        raise ValueError("weights: a list must have a weight at every rank, or NaN at every one")
    return array


def _checked_pool(pool: Grades, count: int) -> Floats:
    array, _ = _padded(pool, "pool")
    if len(array) != count:
        raise ValueError(f"pool of {len(array)} queries: must be one for each list, {count}")
    return array


def _checked_subtopics(grades: Floats | None, shape: tuple[int, ...]) -> Floats | None:
    if grades is None:
        return None
    array = np.asarray(grades, dtype=np.float64)
    if array.ndim != 3 or array.shape[: len(shape)] != shape:
        rule = f"must be (lists, ranks, subtopics), beginning with {shape}"
        raise ValueError(f"subtopics of shape {array.shape}: {rule}")
    if not np.isfinite(array).all():
        raise ValueError("subtopics: must be finite")
    return array


def _flags(
    values: Sequence[Sequence[bool]] | Booleans, shape: tuple[int, ...], what: str
) -> Booleans:
    flags = np.zeros(shape, dtype=np.bool_)
    if len(values) != shape[0]:
        raise ValueError(f"{what} of {len(values)} rows: must be one for each list, {shape[0]}")
    for index, row in enumerate(values):
        if len(row) > shape[1]:
            raise ValueError(f"{what}[{index}] of {len(row)} ranks: must be at most {shape[1]}")
        flags[index, : len(row)] = row
    return flags


def ratio(numerator: Floats | Integers, denominator: Floats | Integers, otherwise: float) -> Floats:
    """numerator / denominator where the denominator is > 0, else `otherwise`.

    numerator (n,), denominator (n,) -> (n,).

    >>> ratio(np.array([1, 1]), np.array([2, 0]), np.nan).tolist()
    [0.5, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = numerator / denominator
    undefined = ~(denominator > 0)
    if undefined.any():
        result[undefined] = otherwise
    return result


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values, ascending: (n,) -> (m,), m <= n.

    The same as `np.unique`, which goes through a hash table that costs ten times as much as this
    sort.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
