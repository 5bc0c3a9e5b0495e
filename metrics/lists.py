"""`Lists`: a batch of result lists as arrays, and the one gate by which outside values become one.

A row is one list, a column is a rank. Everything behind the gate trusts shapes and ranges.
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
    """`n` result lists, cut or padded to `depth` ranks."""

    gains: Floats
    """(n, depth) grade that the item at each rank holds; 0 without feedback, 0 for padding."""
    lengths: Integers
    """(n,) items shown, at most depth."""
    judged: Booleans
    """(n, depth) the item at this rank has feedback, whatever its grade."""
    first_feedback_s: Floats | None = None
    """(n,) seconds from the impression to its first feedback; NaN where none came."""
    weights: Floats | None = None
    """(n, at least depth and 1) 1 / propensity of each rank, clipped; NaN all along a list that was
    shown where propensities are not known."""
    pool: Floats | None = None
    """(n, width) grades of every judged item of the query, shown or not; NaN pads."""
    collection_size: Integers | None = None
    """(n,) items that could have been returned."""
    known: Booleans | None = None
    """(n, depth) the searcher knew this item before."""
    known_relevant: Integers | None = None
    """(n,) relevant items that the searcher knew before, shown or not."""

    def __len__(self) -> int:
        return len(self.gains)

    @property
    def depth(self) -> int:
        """Ranks that the arrays hold."""
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
    ) -> "Lists":
        """Check and pad plain values: a sequence of grades a list, None or NaN where nobody judged.

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
            known=None if known is None else _flags(known, padded.shape),
            known_relevant=_counts(known_relevant, count, "known_relevant"),
        )

    def blocks(self, rows: int) -> Iterator["Lists"]:
        """At most `rows` of the lists at a time, gains laid out by column for kernels' loops."""
        if len(self) <= rows and is_by_column(self.gains):
            yield self
            return
        present = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        for start in range(0, len(self), rows):
            end = start + rows
            part = {name: getattr(self, name)[start:end] for name in present}
            yield Lists(**part | {"gains": by_column(part["gains"])})


def by_column(values: Floats) -> Floats:
    """The same array with each column in one piece, copied only where it is not so already.

    >>> by_column(np.zeros((3, 2))).strides
    (8, 24)
    """
    return values if is_by_column(values) else np.asfortranarray(values)


def is_by_column(values: Floats) -> bool:
    """Whether each column stands in one piece.

    >>> is_by_column(np.zeros((3, 2)))
    False
    """
    return values.strides[0] == values.itemsize


def _padded(grades: Grades, what: str) -> tuple[Floats, Integers]:
    """(n, longest) grades with NaN for nothing, and the (n,) lengths given."""
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
    wrong = np.flatnonzero((shown < 0) | (shown > padded.shape[1]))
    if wrong.size:
        raise ValueError(
            f"lengths[{wrong[0]}]={shown[wrong[0]]}: must be from 0 to {padded.shape[1]} ranks"
        )
    return shown


def _integers(values: Sequence[int] | Integers, count: int, what: str) -> Integers:
    array = np.asarray(values)
    if array.shape != (count,):
        raise ValueError(f"{what} of shape {array.shape}: must be one value a list, ({count},)")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{what} of type {array.dtype}: must be whole numbers")
    return array.astype(np.int64)


def _counts(values: Sequence[int] | Integers | None, count: int, what: str) -> Integers | None:
    if values is None:
        return None
    array = _integers(values, count, what)
    if (array < 0).any():
        raise ValueError(f"{what}: the least is {array.min()}, must be >= 0")
    return array


def _optional_seconds(values: Sequence[float | None] | Floats | None, count: int) -> Floats | None:
    if values is None:
        return None
    seconds = _row(values, 0, "first_feedback_s")
    if seconds.shape != (count,):
        raise ValueError(
            f"first_feedback_s of shape {seconds.shape}: must be one value a list, ({count},)"
        )
    return seconds


def _checked_weights(weights: Sequence[Sequence[float]] | Floats, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 2 or len(array) != shape[0] or array.shape[1] < max(shape[1], 1):
        rule = f"must be ({shape[0]}, {max(shape[1], 1)} or more): one a rank, at least one a list"
        raise ValueError(f"weights of shape {array.shape}: {rule}")
    unknown = np.isnan(array)
    if not (unknown | (np.isfinite(array) & (array > 0))).all():
        raise ValueError(f"weights: the least is {np.nanmin(array)}, must be finite and > 0")
    if (unknown.any(axis=1) != unknown.all(axis=1)).any():
        raise ValueError("weights: a list must have a weight at every rank, or NaN at every one")
    return array


def _checked_pool(pool: Grades, count: int) -> Floats:
    array, _ = _padded(pool, "pool")
    if len(array) != count:
        raise ValueError(f"pool of {len(array)} queries: must be one a list, {count}")
    return array


def _flags(values: Sequence[Sequence[bool]] | Booleans, shape: tuple[int, ...]) -> Booleans:
    flags = np.zeros(shape, dtype=np.bool_)
    if len(values) != shape[0]:
        raise ValueError(f"known of {len(values)} rows: must be one a list, {shape[0]}")
    for index, row in enumerate(values):
        if len(row) > shape[1]:
            raise ValueError(f"known[{index}] of {len(row)} ranks: must be at most {shape[1]}")
        flags[index, : len(row)] = row
    return flags
