"""The schemas of answers, with a description and an example of each property. Pure apart from
reading the docstrings of fields from the source of their types.

What fields of answers mean that have no docstring of their own because they mean the same in all
types, and an example of each.
"""

import ast
import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

TIME: Final = "2026-11-20T12:00:00.000Z"

TEXTS: Final[Mapping[str, str]] = {
    "alive": "Always true: a process that is not alive does not answer.",
    "as_of": "Event time up to which all is in the answer; null before the first event.",
    "at": "Event time, in UTC.",
    "batches": "Batches of records that were read and applied since the start of the process.",
    "before": "The same in the period that it is compared with.",
    "bucket": "Which of the buckets that users are dealt into.",
    "change_ratio": "The change as a share of the level before; null where that is unknown.",
    "conditions": "What must hold for the process to be ready.",
    "control": "The variant that the others are compared with.",
    "control_mean": "Mean of the control; null where no impression has a defined value.",
    "control_scored": "Impressions of the control for which the metric is defined.",
    "control_share": "Share of the lists of the control for which the metric is defined.",
    "crossover_users": "Estimated number of users that were shown several variants.",
    "day_difference": "Difference to the control on the day alone.",
    "day_impressions": "Impressions of the variant on the day.",
    "day_upper": "Upper bound of the difference on the day.",
    "declared": "Whether it is configured; others were found in events.",
    "design_effect": "Variance of the difference over that of independent impressions.",
    "detail": "What is wrong, or worth knowing.",
    "difference": "The variant minus the control; null where either is undefined.",
    "direction": "Whether the score got better or worse.",
    "earliest": "The earliest instant of the interval; null where it is older than what is kept.",
    "end": "End of the interval, which is not part of it.",
    "error": "What is wrong: the value, the rule, and the way out.",
    "events": "Counts of all events that were read.",
    "experiment": "Name of the experiment.",
    "feedback": "Pieces of feedback that were read.",
    "feedback_outcomes": "What became of feedback: outcome → number.",
    "grouping": "The attribute, or attributes with commas between them; `all` is the whole.",
    "headline": "The state of search in a sentence, whatever the request asks for.",
    "hour_seconds": "Length of an hour.",
    "id": "Name that stays the same as long as it exists.",
    "impression_outcomes": "What became of impressions: outcome → number.",
    "impressions": "Impressions, whether the metric is defined for them or not.",
    "kind": "What it is.",
    "lag_records": "Records that have not been read yet.",
    "lane": "What it is compared with.",
    "latest": "The latest instant of the interval.",
    "log_evalue": "Natural logarithm of the evidence against no difference.",
    "lower": "Lower bound; null where there is too little to say.",
    "look_at": "Where to look first.",
    "losses": "Impressions that the variant lost.",
    "mean": "Mean of the metric; null where no impression has a defined value.",
    "metric": "Name of the metric, such as `RR@10`.",
    "metrics": "One entry for each metric.",
    "name": "Its name.",
    "now": "The period, or what was counted in it.",
    "ok": "Whether the condition holds.",
    "open_impressions": "Impressions that feedback can still join.",
    "owned_lanes": "Lanes that this process writes.",
    "p_value": "Valid at every look.",
    "pane_seconds": "Length of a pane, by which the window slides.",
    "partition": "Number of the partition.",
    "path": "The path, with parameters in braces.",
    "planned_impressions": "Impressions for which the intervals are narrowest.",
    "ready": "Whether every condition holds.",
    "recovered": "When the score recovered; null while it has not.",
    "relative_difference": "The difference as a share of the control's mean.",
    "relative_upper": "Upper bound of the relative difference.",
    "role": "What it is for.",
    "scope": "What it is about; null stands for everything.",
    "scored": "Impressions for which the metric is defined.",
    "seconds": "Length of the window.",
    "segment": "One value of the grouping; `all` is the whole.",
    "segments": "The segments, of one grouping.",
    "snapshot_errors": "Snapshots that failed since the start of the process.",
    "start": "Start of the interval, in event time.",
    "stderr": "Standard error of the mean; null below two scored impressions.",
    "summary": "What it answers.",
    "text": "In words, for people.",
    "ties": "Impressions in which neither won.",
    "topic": "Name of the topic.",
    "unit": "What is dealt to variants: the user, or another identity of the events.",
    "upper": "Upper bound; null where there is too little to say.",
    "users": "Estimated number of users.",
    "variant": "Name of the variant.",
    "variants": "One entry for each variant but the control.",
    "verdict": "What may be said of the difference at this look.",
    "version": "Version of the program.",
    "view": "`live`, or `settled`: what no feedback can change any more.",
    "waiting_feedback": "Feedback whose impression has not arrived yet.",
    "warnings": "What makes the numbers doubtful.",
    "window": "Name of the window, such as `5m`.",
    "window_seconds": "Length of the window.",
    "without_control": "Whether there is traffic, but none of a control, or of its team.",
    "words": "In words, for people.",
    "KeptQueries.text": "`plain`, or `hashed`: texts are hashes with a secret key.",
    "KeptQueries.windows": "Windows for which there are lists.",
    "Health.scores": "`served`; `not_yet` before the first snapshot; `elsewhere` in a worker.",
}
"""Field, or `Type.field` where it has a meaning of its own there → what it means."""

EXAMPLES: Final[Mapping[str, Any]] = {
    "alert": "RelevancedScoreDropped",
    "acknowledged": None,
    "alive": True,
    "as_of": TIME,
    "at": TIME,
    "back_live": None,
    "batch_seconds": 0.021,
    "batches": 1840,
    "beside": None,
    "began_before": TIME,
    "behind_seconds": 1.2,
    "beyond": 3.9,
    "bucket": 17,
    "called_at": TIME,
    "called_by": ["hour"],
    "carried": 0.93,
    "caution": "Leave out only what has a cause outside of the outcome.",
    "change": "c-1795176000-country-DE",
    "change_ratio": -0.65,
    "commits": {"applied": 1840},
    "complete": True,
    "control": "control",
    "counts_from": None,
    "covered": 0.41,
    "crossover_users": 12.0,
    "day": "2026-11-20",
    "declared": True,
    "delta": 0.02,
    "design_effect": 1.3,
    "detail": "",
    "discovery": True,
    "dropped_values": {"country": 2},
    "earliest": TIME,
    "end": TIME,
    "error": "window=2m: must be one of 5m; 1h; 24h",
    "experiment": "ranker-v2",
    "first_day": "2026-11-20",
    "feedback_outcomes": {"joined": 21045, "unjoined": 310},
    "exclude": "2026-11-20/2026-11-21",
    "filled": False,
    "first_whole_day": "2026-11-21",
    "gap_records": 0,
    "grouping": "country",
    "hour_seconds": 3600,
    "id": "c-1795176000-country-DE",
    "impression_outcomes": {"accepted": 20110},
    "judged_metric": "nDCG(ideal=pool)@10",
    "judgements": "2026-11-20T0000Z-quepid.csv",
    "lane": "hour",
    "last_poll": TIME,
    "latest": TIME,
    "log_evalue": 5.1,
    "look_at": "ranker release, features, boosts",
    "lost": [],
    "last_day": "2026-11-21",
    "metric": "RR@10",
    "mixed_days": ["2026-11-22"],
    "name": "redis",
    "ok": True,
    "p_value": 0.006,
    "partition": 3,
    "path": "/api/v1/scores",
    "ready": True,
    "recording": None,
    "recovered": None,
    "unscored_since": None,
    "rejected": {"missing_field": 3},
    "relative_words": "between 0.4 % and 2.1 % better",
    "remark": None,
    "runbook": "https://wiki.example.com/relevanced/runbook",
    "segment": "DE",
    "settled_until": TIME,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "shares": {"control": 0.95, "treatment": 0.05},
    "shares_differ": False,
    "since": TIME,
    "start": TIME,
    "status": "tested",
    "stopped_lanes": [],
    "stratify_by": "country",
    "stratum": "DE",
    "stretches": [[TIME, TIME]],
    "summary": "The scores of every window, metric and shown segment.",
    "text": "RR@10 of country DE fell from 0.55 to 0.20 at 12:00, not recovered.",
    "topic": "search-events",
    "until": None,
    "users_since": TIME,
    "variant": "treatment",
    "verdict": "better",
    "version": "0.1.0",
    "view": "settled",
    "warning": "",
    "warnings": [],
    "weights": {"DE": 0.3, "US": 0.7},
    "window": "5m",
    "without_control": False,
    "words": "0.012 better (from 0.004 to 0.020)",
    "BackLive.known_until": TIME,
    "Explained.segments": ["DE"],
    "HeadlineParts.better": None,
    "HeadlineParts.ended": None,
    "HeadlineParts.far": None,
    "HeadlineParts.final": None,
    "HeadlineParts.segments": ["DE"],
    "HeadlineParts.known_until": TIME,
    "HeadlineParts.no_feedback": None,
    "HeadlineParts.watching_since": TIME,
    "Measured.meaning": "share of the first k items that are relevant",
    "NamedMarker.text": "ranker v8",
    "Buckets.unit": "user",
    "BusyUnit.unit": "c68b1f1a5b1d2c17",
    "Finding.unit": "user",
    "Hours.from": TIME,
    "Hours.to": TIME,
    "MarkerAnswer.id": "m-1",
    "MarkerPosted.id": "m-1",
    "MarkerAnswer.text": "ranker v8",
    "MarkerPosted.text": "ranker v8",
    "OpenChange.judged": False,
    "OpenChange.segments": ["DE"],
    "Removed.id": "m-1",
    "Stretch.end": TIME,
    "TalliedMetric.unit": 1_000_000,
    "Health.now": TIME,
    "Judged.files": [],
    "judged_metrics": ["nDCG(ideal=pool)@10", "P@5", "Judged@10"],
    "Judged.refused": [],
    "Judged.unjudged": "zero",
    "Judged.until": TIME,
    "JudgedChange.unit": "week",
    "Acknowledged.text": "rolled back to v7, waiting",
    "Acknowledged.until": "2026-11-20T14:30:00.000Z",
    "Acknowledged.by": "bob",
    "AcknowledgementPosted.text": "rolled back to v7, waiting",
    "AcknowledgementPosted.until": "2026-11-20T14:30:00Z",
    "AttributeFiles.attribute": "traffic",
    "AttributeFiles.refused": [],
    "DatedFile.name": "2026-11-20T0000Z-quepid.csv",
    "LaneDatedFiles.first": TIME,
    "LaneDatedFiles.latest": TIME,
    "JudgedScore.since": None,
    "KeptQueries.by": "country",
    "KeptQueries.compared_metrics": ["RR@10"],
    "KeptQueries.compared_windows": ["now", "1h", "6h", "24h"],
    "UnjudgedItem.docid": "d3",
    "UnjudgedItem.rating": None,
    "UnjudgedItems.from": TIME,
    "UnjudgedItems.until": TIME,
    "KeptQueries.text": "plain",
    "UnjudgedItems.text": "plain",
    "KeptQueries.windows": ["now", "1h", "6h", "24h", "7d"],
    "Level.basis": "hour",
    "Queries.from": TIME,
    "Queries.until": TIME,
    "Queries.carried": 0.63,
    "Queries.carried_at_least": 0.52,
    "Queries.carried_at_most": 0.75,
    "GradedBy.doubts": "",
    "GradedBy.superseded_at": None,
    "GradedBy.superseded_by": None,
    "QueryRow.lost": 31.5,
    "QueryExample.impression_id": "q1",
    "QueryExample.time": TIME,
    "QueryExample.items": ["d3", "d7"],
    "QueryExample.gains": [0, 1],
    "QueryExample.attributes": {"country": "US"},
    "cursor": "WzE3OTUxNzYwMDAwMDAsMTc5NTE3OTYwMDAwMCw1MF0=",
    "limit": "50",
    "next": None,
    "order": "impressions",
    "query": "running shoes",
    "shown": True,
    "sure": True,
}
"""Field, or `Type.field` → an example. Other numbers have one by their type."""
COUNT, NUMBER = 1204, 0.412
"""Examples of whole numbers, and of others."""


REFERENCE: Final = "#/components/schemas/{name}"
_PREFIX: Final = REFERENCE.format(name="")


def described(types: Sequence[type[msgspec.Struct]]) -> dict[str, dict[str, Any]]:
    """Name → schema of these types and of all that they refer to."""
    _, schemas = msgspec.json.schema_components(types, ref_template=REFERENCE)
    structs = _structs(types)
    for name, schema in schemas.items():
        docs = field_docs(structs[name])
        for field, value in schema.get("properties", {}).items():
            if text := docs.get(field) or text_of(name, field, value, schemas):
                value["description"] = text
    for name, schema in schemas.items():
        for field, value in schema.get("properties", {}).items():
            value["examples"] = [example_of(name, field, value, schemas)]
    return schemas


def text_of(
    name: str, field: str, value: Mapping[str, Any], schemas: Mapping[str, Any]
) -> str | None:
    """What a field without a docstring means; of one that is another type, what that is. None where
    nothing says it, which a test does not allow."""
    for key in (f"{name}.{field}", field):
        if key in TEXTS:
            return TEXTS[key]
    referred = _referred(value)
    return None if referred is None else str(schemas[referred]["description"])


def example_of(name: str, field: str, value: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """An example of a property. Raises LookupError where there is none of a text."""
    for key in (f"{name}.{field}", field):
        if key in EXAMPLES and (key != field or _may_be(value, EXAMPLES[key])):
            return EXAMPLES[key]
    try:
        return _by_type(value, schemas)
    except KeyError as error:
        raise LookupError(f"{name}.{field}: has no entry in schemas.EXAMPLES") from error


def _by_type(value: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    if "$ref" in value:
        name = value["$ref"].removeprefix(_PREFIX)
        properties = schemas[name]["properties"].items()
        return {field: example_of(name, field, part, schemas) for field, part in properties}
    if "anyOf" in value:
        return _by_type(value["anyOf"][0], schemas)
    if "enum" in value:
        return value["enum"][0] or value["enum"][-1]
    if value["type"] == "array":
        return [_by_type(value["items"], schemas)]
    return {"integer": COUNT, "number": NUMBER}[value["type"]]


def _may_be(value: Mapping[str, Any], example: Any) -> bool:
    """Whether the example is of one of the types of the property."""
    options = value.get("anyOf", [value])
    return any(
        (
            example in option["enum"]
            if "enum" in option
            else _KINDS.get(option.get("type")) is type(example)
        )
        for option in options
    )


_KINDS: Final[Mapping[Any, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def _referred(value: Mapping[str, Any]) -> str | None:
    """The name of the type that a property is, or is a list of; None for a plain value."""
    if "anyOf" in value:
        return _referred(value["anyOf"][0])
    if "items" in value:
        return _referred(value["items"])
    return value["$ref"].removeprefix(_PREFIX) if "$ref" in value else None


@cache
def field_docs(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Encoded name of each field with a docstring → that, in one line. Of a base class too."""
    found = dict[str, str]()
    for base in struct.__bases__:
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found |= field_docs(base)
    names = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
    try:
        (tree,) = ast.parse(inspect.getsource(struct)).body
    except OSError:
        return found  # an installation without sources: it has the shared texts only
    assert isinstance(tree, ast.ClassDef)
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[names[field.target.id]] = " ".join(str(text.value.value).split())
    return found


def _structs(types: Sequence[type[msgspec.Struct]]) -> dict[str, type[msgspec.Struct]]:
    """Name → type, of these and of all that they refer to."""
    found = dict[str, type[msgspec.Struct]]()

    def visit(part: object) -> None:
        if isinstance(part, msgspec.inspect.StructType):
            if part.cls.__name__ not in found:
                found[part.cls.__name__] = part.cls
                for field in part.fields:
                    visit(field.type)
        elif isinstance(part, msgspec.inspect.UnionType):
            for each in part.types:
                visit(each)
        elif isinstance(part, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            visit(part.item_type)

    for each in types:
        visit(msgspec.inspect.type_info(each))
    return found
