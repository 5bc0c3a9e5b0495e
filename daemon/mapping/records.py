"""Applies a source to records: bytes become events, or the reasons why not.

The order for one record: frame, schema, body, envelope, `each`; then for each element the
impression tables, the feedback tables, the drops, and last the fields. An element that is refused
is refused alone. This is the definition of a mapping. Pure; nothing in a record raises, and its
work is bounded.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace as changed
from functools import cached_property
from itertools import chain
from typing import Final, Protocol

from msgspec.structs import replace

from ..events import (
    NOT_MAPPED,
    SKIP_REASONS,
    TOMBSTONE,
    Decoded,
    Feedback,
    InvalidField,
    Limits,
    LogRecord,
    LogRecords,
    PlainEvents,
    Rejected,
    Skipped,
    Trimmed,
    decoder,
    nothing_plain,
    refused,
    rejected_future,
    shown,
    too_large,
    without_halves,
)
from ..schemas import JSON, Bodies, Framing, SchemaBook
from .cloudevents import Headers, unwrapped
from .compiled.compiled_source import Compiled, compiled
from .event_tables import drops, elements_of, feedback_of, impression_of, is_feedback
from .expressions import (
    Evaluation,
    Expression,
    FeedbackTable,
    ImpressionTable,
    MappedSource,
    compared,
    is_path,
    path_text,
)
from .framed_formats import FramedFormat
from .functions import Surroundings
from .members import members_of
from .value_texts import scalar_text

MOST_ELEMENTS: Final = 10_000
"""Most events of one record."""
SLICE_ELEMENTS: Final = 16
"""So many elements are mapped at once."""


@dataclass(frozen=True)
class Mapper:
    """Maps the records of one source."""

    source: MappedSource
    limits: Limits
    bodies: Bodies

    @cached_property
    def compiled(self) -> Compiled | None:
        """The compiled form of the source; None where there is none."""
        return compiled(self.source, self.limits, self.bodies)

    @cached_property
    def _compiled_to_pass_on(self) -> Compiled | None:
        """The same where all attributes and queries are needed; None where nothing is passed on."""
        if not self.limits.passes_on:
            return None
        every = replace(self.limits, attributes=None, queries=True)
        return compiled(self.source, every, self.bodies)

    @cached_property
    def _without_queries(self) -> "Mapper | None":
        """What reads all but what only queries read; None where the source has no query."""
        shown = self.source.impressions
        if all(table.query is None for table in shown):
            return None
        impressions = tuple(changed(table, query=None) for table in shown)
        source = changed(self.source, impressions=impressions)
        return Mapper(source, self.limits, self.bodies.reading(members_of(source)))

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """Return what the compiled form makes of records; see `Decoder.plain`."""
        if self.compiled is None or self.limits.passes_on:  # it reads no more than is needed
            return nothing_plain(len(records))
        return self.compiled.plain(records, most_bytes)

    def is_mapping(self, record: LogRecord) -> bool:
        """True: the records that `plain` leaves are read slowly."""
        return True

    def of_record(self, record: LogRecord) -> list[Decoded]:
        """Return the events of one record; see `events`."""
        return list(chain.from_iterable(self.slices_of(record)))

    def events(
        self,
        value: bytes | None,
        record_time_ms: int | None = None,
        key: bytes | None = None,
        headers: Headers = (),
    ) -> list[Decoded]:
        """Return the events of one record, in order, and what is refused, skipped or dropped of it.
        Never raises."""
        return list(chain.from_iterable(self.slices(value, record_time_ms, key, headers)))

    def slices_of(self, record: LogRecord) -> Iterator[list[Decoded]]:
        """Yield what `events` returns, in slices."""
        return self.slices(record.value, record.timestamp, record.key, record.headers)

    def slices(
        self,
        value: bytes | None,
        record_time_ms: int | None = None,
        key: bytes | None = None,
        headers: Headers = (),
    ) -> Iterator[list[Decoded]]:
        """Yield the same in slices, each of which is mapped once it is asked for."""
        if value is None:
            yield [Skipped(TOMBSTONE)]
            return
        if len(value) > self.limits.max_record_bytes:
            yield [too_large(len(value), self.limits.max_record_bytes)]
            return
        if record_time_ms is not None and record_time_ms < 0:
            record_time_ms = None
        try:
            around = self._around(value, record_time_ms, key, headers)
            found = Evaluation(around, len(value))
            elements = self._elements(found, around.root)
        except InvalidField as error:
            yield [_refusal(error)]
            return
        for first in range(0, len(elements), SLICE_ELEMENTS) or (0,):
            part = elements[first : first + SLICE_ELEMENTS]
            mapped = chain.from_iterable(self._element(found, element) for element in part)
            yield [self._in_time(event, record_time_ms) for event in mapped]

    def _around(
        self, value: bytes, record_time_ms: int | None, key: bytes | None, headers: Headers
    ) -> Surroundings:
        """The record as expressions see it. Where it is broken in what no expression reads, or in
        what only queries do (no UTF-8, a number that no type has), without that. Raises
        InvalidField."""
        topic = self.source.topic
        try:
            return unwrapped(
                self.source.envelope,
                value,
                self.bodies,
                topic=topic,
                key=key,
                headers=headers,
                time_ms=record_time_ms,
            )
        except InvalidField:
            if self.source.codec == JSON:
                value = bytes(without_halves(value))
                # What is only passed on may be what is broken.
                for form in filter(None, (self._compiled_to_pass_on, self.compiled)):
                    with suppress(ValueError, RecursionError):
                        root, attributes = form.pruned(value, headers)
                        return Surroundings(root, topic, key, headers, record_time_ms, attributes)
            if self._without_queries is not None:
                with suppress(InvalidField):
                    around = self._without_queries._around(value, record_time_ms, key, headers)
                    return changed(around, lacks_queries=True)
            raise

    def _elements(self, found: Evaluation, root: object) -> Sequence[object]:
        """What of a record are events: objects, as far as it is well-formed."""
        each = self.source.each
        value = root if each is None else found.find(each, root)
        if isinstance(value, list):
            if each is not None:
                return elements_of(value, each, MOST_ELEMENTS)
            if len(value) > MOST_ELEMENTS:
                raise InvalidField("too_large", f"{len(value)} events: must be <= {MOST_ELEMENTS}")
            return value
        return [value]

    def _element(self, found: Evaluation, element: object) -> list[Decoded]:
        if element is None:
            return [Skipped(NOT_MAPPED)]
        if not isinstance(element, dict):
            name = f"{self.source.key}.each" if self.source.each is None else self.source.each.name
            return [_refusal(refused("wrong_type", name, element, "must be an object"))]
        try:
            impressions, feedback = self._tables(found, element)
            if not impressions and not feedback:
                return [Skipped(NOT_MAPPED)]
            drop = next((one for one in self.source.drops if drops(one, found, element)), None)
        except InvalidField as error:
            return [_refusal(error)]
        if drop is not None:
            return [Skipped(drop.reason)]
        events = list[Decoded]()
        for table in impressions:
            events += self._impression(table, found, element)
        for reaction in feedback:
            events += self._feedback(reaction, found, element)
        return events

    def asked(self, record: LogRecord) -> Counter[str]:
        """Of the elements that no table maps: what `where` and `kinds` were asked with, each value
        with its path, such as `event='Page Viewed'`."""
        asked = Counter[str]()
        try:
            around = self._around(record.value or b"", None, record.key, record.headers)
            found = Evaluation(around, len(record.value or b""))
            for element in self._elements(found, around.root):
                if self._element(found, element) == [Skipped(NOT_MAPPED)]:
                    asked.update(self._asked(found, element))
        except InvalidField:
            pass  # what is refused is told as such
        return asked

    def _asked(self, found: Evaluation, element: object) -> Iterator[str]:
        conditions = [table.where for table in self.source.impressions]
        conditions += [table.where for table in self.source.feedback]
        wheres = (where.tree for where in conditions if where is not None)
        kinds = (table.kind.tree for table in self.source.feedback if table.kind is not None)
        paths = {path_text(path): path for tree in wheres for path in compared(tree)}
        paths |= {path_text(tree): tree for tree in kinds if is_path(tree)}
        for text, path in paths.items():
            value = scalar_text(found.find(Expression(text, path), element))
            if value is not None:
                yield f"{text}={shown(value)}"

    def _tables(
        self, found: Evaluation, element: object
    ) -> tuple[list[ImpressionTable], list[FeedbackTable]]:
        """The tables that map an element."""
        return (
            [table for table in self.source.impressions if found.is_true(table.where, element)],
            [table for table in self.source.feedback if is_feedback(table, found, element)],
        )

    def _impression(
        self, table: ImpressionTable, found: Evaluation, element: object
    ) -> list[Decoded]:
        try:
            read = impression_of(table, found, element, self.source.time, self.limits)
        except InvalidField as error:
            return [_refusal(error)]
        if isinstance(read, Trimmed):
            return [read.event, *map(Rejected, read.dropped)]
        return [read]

    def _feedback(self, table: FeedbackTable, found: Evaluation, element: object) -> list[Decoded]:
        try:
            read = list(feedback_of(table, found, element, self.source.time, self.limits))
        except InvalidField as error:
            return [_refusal(error)]
        return [one if isinstance(one, Feedback) else _as_skip(one) for one in read]

    def _in_time(self, event: Decoded, record_time_ms: int | None) -> Decoded:
        """The event, or its rejection where it is too far after its record."""
        most_ms = self.limits.max_future_ms
        if record_time_ms is None or isinstance(event, Rejected):
            return event
        if event.time_ms <= record_time_ms + most_ms:
            return event
        return rejected_future(event, record_time_ms, most_ms)


def mapper(source: MappedSource, limits: Limits, book: SchemaBook | None = None) -> Mapper:
    """Return what maps the records of a source. `book`: the schemas that frames name."""
    own = None if source.schema is None else source.schema.parsed
    framing = Framing(source.codec, source.framing)
    book = SchemaBook() if book is None else book
    return Mapper(source, limits, Bodies(framing, book, own, members_of(source)))


def _refusal(error: InvalidField) -> Rejected:
    return _as_skip(Rejected(error.reason, error.detail))


def _as_skip(rejected: Rejected) -> Rejected:
    if rejected.reason in (*SKIP_REASONS, NOT_MAPPED):
        return Skipped(rejected.reason, rejected.detail)
    return rejected


class TopicReader(Protocol):
    """What reads the records of one topic."""

    def slices_of(self, record: LogRecord) -> Iterator[Sequence[Decoded]]: ...  # noqa: D102
    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents: ...  # noqa: D102
    def is_mapping(self, record: LogRecord) -> bool: ...  # noqa: D102


@dataclass(frozen=True)
class TopicDecoder:
    """Reads the records of several topics, each by a source of its own."""

    by_topic: Mapping[str, TopicReader]
    limits: Limits

    def of_record(self, record: LogRecord) -> list[Decoded]:
        """The events of one record, in order. Never raises."""
        return list(chain.from_iterable(self.slices_of(record)))

    def slices_of(self, record: LogRecord) -> Iterator[Sequence[Decoded]]:
        """The same events in slices."""
        reader = self.by_topic.get(record.topic)
        if reader is None:
            listed = ", ".join(self.by_topic)
            detail = f"topic {record.topic}: must be one of sources.topic ({listed})"
            return iter(([Skipped(NOT_MAPPED, detail)],))
        return reader.slices_of(record)

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        """What the reader of their topic makes of them; see `Decoder.plain`."""
        logged = records.logged()
        reader = self.by_topic.get(logged[0].topic) if logged else None
        if reader is None:
            return nothing_plain(len(records))
        return reader.plain(records, most_bytes)

    def asked(self, record: LogRecord) -> Counter[str]:
        """What the tables of its topic were asked with; see `Mapper.asked`."""
        reader = self.by_topic.get(record.topic)
        return reader.asked(record) if isinstance(reader, Mapper) else Counter()

    def is_mapping(self, record: LogRecord) -> bool:
        """Whether the reader of its topic evaluates expressions."""
        reader = self.by_topic.get(record.topic)
        return reader is not None and reader.is_mapping(record)


def topic_decoder(
    sources: Sequence[MappedSource], limits: Limits, book: SchemaBook | None = None
) -> TopicDecoder:
    """Return the decoder of these sources. `book`: the schemas that frames name."""
    book = SchemaBook() if book is None else book
    return TopicDecoder(
        {source.topic: reader_of(source, limits, book) for source in sources}, limits
    )


def reader_of(source: MappedSource, limits: Limits, book: SchemaBook) -> TopicReader:
    """Return what reads the records of a source."""
    if source.reader is not None:
        return FramedFormat(decoder(source.reader, limits), Framing(source.codec, source.framing))
    return mapper(source, limits, book)
