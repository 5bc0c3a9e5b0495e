"""The types of the answers about queries. Pure."""

import msgspec


class QueryRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query in the window. What is lost or gained is in searches, against its own usual."""

    query: str
    """Its normalised text, or its hash."""
    missing_at_most: int
    """So many of its impressions may be missing in all numbers here."""
    zero_result_impressions: int
    """Searches without results."""
    impressions: int | None
    """Null, as all of the following, where only the table of searches without results has it."""
    impressions_with_feedback: int | None
    """Impressions with at least one piece of feedback."""
    scored: int | None
    mean: float | None
    stderr: float | None
    usual_scored: int | None
    """Scored impressions in the same hours of the seven days before."""
    usual_mean: float | None
    """Mean of these."""
    lost: float | None
    """Searches that scored less than usual; negative where it gained."""
    lost_stderr: float | None
    """Its standard error."""
    lost_at_least: float | None
    """Of a loss, what is left after 2.5 errors: above 0, the query is worse than usual."""
    gained_at_least: float | None
    """The same of a gain."""
    sure: bool | None
    """Whether the loss, or the gain, passes 3.5 errors too."""


class QuerySums(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sums of many queries in the window."""

    impressions: int
    zero_result_impressions: int
    """Searches without results."""
    impressions_with_feedback: int
    """Impressions with at least one piece of feedback."""
    scored: int
    mean: float | None


class UnlistedSums(QuerySums, frozen=True, forbid_unknown_fields=True):
    """The sums of the queries that the tables do not list, and what they lost as a whole."""

    stderr: float | None
    """Standard error of the mean, at most."""
    usual_scored: int
    """Scored impressions in the same hours of the seven days before, of these queries, and of those
    that are not listed now."""
    usual_mean: float | None
    """Mean of these."""
    lost: float | None
    """Searches that scored less than usual; negative where they gained. Null where nothing is
    usual, as all of the following."""
    lost_stderr: float | None
    """Its standard error."""
    lost_at_least: float | None
    """Of a loss, what is left after 2.5 errors: above 0, the tail as a whole is worse than
    usual."""
    gained_at_least: float | None
    """The same of a gain."""
    sure: bool | None
    """Whether the loss, or the gain, passes 3.5 errors too."""


class Queries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Queries of a window. All listed ones, `none`, `rare` and `other` are together the whole."""

    from_: str = msgspec.field(name="from")
    """Start of the first hour."""
    until: str
    """End of the last hour."""
    metric: str
    order: str
    """By which the rows are listed."""
    segment: str | None
    hours: int
    """Whole hours in the window, as far as tables of queries cover it."""
    lost_hours: int
    """Hours of which a part is missing here: Redis lost it, or a partition went quiet."""
    usual_days: int
    """Days before whose same hours say what is usual."""
    min_users: int
    """From so many users of a day on a text is shown."""
    listed: int
    """Queries that are shown, on all pages of this list."""
    rows: tuple[QueryRow, ...]
    """The queries of this page of the list."""
    none: QuerySums
    """Searches without a query."""
    rare: QuerySums
    """Queries of fewer users."""
    other: UnlistedSums | None
    """Queries that the tables do not list; null for a segment, of which it is not known."""
    whole: QuerySums | None
    unlisted_at_most: int
    """The most impressions that any query has that the tables do not list."""
    carried: float | None
    """The part of the whole's change that the first ten queries carry, beside changes of the mix
    and without the bad luck for which they were chosen; null where the whole has not changed by
    more than two errors, and for a segment of which the tables do not list every query."""
    carried_at_least: float | None
    """Two errors below it."""
    carried_at_most: float | None
    """Two errors above it; more than 1 where all others may have changed the other way."""
    next: str | None
    """The cursor of the rows that follow."""
    text: str
    """How queries are stored: `plain`, or `hashed`, where the rows have hashes."""


class QueryHour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query in one hour."""

    start: str
    impressions: int
    missing_at_most: int
    """So many of its impressions may be missing in all numbers here."""
    zero_result_impressions: int
    """Searches without results."""
    impressions_with_feedback: int
    """Impressions with at least one piece of feedback."""
    scored: int
    mean: float | None


class QueryExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One search as it was shown. It never says who searched."""

    impression_id: str
    """The id of the search."""
    time: str
    """When it happened."""
    items: tuple[str | None, ...]
    """The first ten items of its list; null where the item stands further up."""
    gains: tuple[float, ...]
    """Those of the items: 0 for one without feedback."""
    attributes: dict[str, str]
    """Attributes that groupings name, as far as the impression has them."""


class QueryDetail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query by hour. A query of too few users is answered like one that nobody searched for."""

    query: str
    """Its normalised text, or its hash."""
    metric: str
    segment: str | None
    shown: bool
    """Whether tables list it, with enough users."""
    hours: tuple[QueryHour, ...]
    """Its hours; none where it is not shown."""
    examples: tuple[QueryExample, ...]
    """Its searches that scored worst by the first metric, of the hours whose examples are kept;
    equal scores are in an order without meaning."""
    lost_examples: int
    """Hours whose examples Redis has lost."""
