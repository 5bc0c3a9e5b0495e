"""Lines of samples, family by family, as both text formats have them: escaped labels, and the
samples of experiments, dated files, layouts and tables of queries (no text of any query). Pure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Final, TypeAlias

import numpy as np

from relevanced.metrics import Floats, Integers, Metric

from ..experiments import Finding, Findings, Interleaving
from ..judgements import IndexEntry, start_text
from ..lane import attribute_values
from ..plan import ALL, OTHER, Plan
from ..queries import NO_SCORE, Example, first_examples
from ..storage import QueryHead
from ..telemetry import FAMILIES, Family
from ..views import SETTLED, LaneFiles, Segment, Snapshot

TAKEN: Final = frozenset(
    (
        *(
            label
            for family in FAMILIES.values()
            if "segment" in family.labels and "experiment" not in family.labels
            for label in family.labels
        ),
        *("le", "quantile", "cluster", "namespace", "job", "instance"),
    )
)
"""Label names that already have a meaning, here or in Prometheus."""

ONSET_BOUNDS: Final = ("earliest", "likely", "latest")
"""Values of the label `bound` of an onset."""

_VALID: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z")
_INVALID_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_]")


def label_names(groupings: Iterable[Sequence[str]]) -> dict[str, str]:
    """Attribute name → label name, distinct for distinct attributes.

    A name that is not a valid label name, or is taken, gets the prefix `attr_`, and `_` for each
    character that a label name must not contain; where another attribute has that label already, a
    number as suffix.
    """
    names = sorted({name for grouping in groupings for name in grouping})
    labels = {name: name for name in names if _VALID.match(name) and name not in TAKEN}
    used = set(labels.values())
    for name in names:
        if name not in labels:
            labels[name] = _free("attr_" + _INVALID_CHARACTER.sub("_", name), used)
            used.add(labels[name])
    return labels


def escape(value: str) -> str:
    """The value of a label as it stands between quotes in both text formats."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def labels_of(segments: Iterable[Segment], plan: Plan) -> list[str]:
    """`grouping="…",segment="…"` and one label per attribute, for each segment. `other` stands for
    many values and has no attribute label."""
    groupings = dict(zip(plan.grouping_names, ((), *plan.groupings), strict=True))
    names = label_names(plan.groupings)
    return [
        f'grouping="{escape(grouping)}",segment="{escape(segment)}"'
        + _attributes(segment, groupings.get(grouping, ()), names)
        for grouping, segment in segments
    ]


def _attributes(segment: str, attributes: Sequence[str], names: Mapping[str, str]) -> str:
    if segment in (ALL, OTHER):
        return ""
    values = attribute_values(segment)
    return "".join(
        f',{names[attribute]}="{escape(value)}"'
        for attribute, value in zip(attributes, values, strict=True)
    )


def _free(label: str, used: set[str]) -> str:
    candidate, number = label, 2
    while candidate in used:
        candidate, number = f"{label}_{number}", number + 1
    return candidate


Bodies: TypeAlias = dict[str, list[bytes]]
"""Family name → its lines, in one chunk for each call that added some."""


def add_defined(
    bodies: Bodies,
    family: Family,
    head: str,
    labels: Sequence[str],
    tail: str,
    values: Floats | Integers,
) -> None:
    """Add the samples that have a value: what is undefined is absent, neither 0 nor NaN.

    Integers stand as they are. Nine digits of others: more than the millionths that rows are kept
    in, and half the time of all seventeen.
    """
    if values.dtype == np.int64:
        add(bodies, family, head, labels, tail, values.tolist())
        return
    start = family.name + head
    defined = ~np.isnan(values)
    pairs = zip(compress(labels, defined.tolist()), values[defined].tolist(), strict=True)
    add_lines(bodies, family, [f"{start}{label}{tail}{value:.9g}\n" for label, value in pairs])


def add(
    bodies: Bodies,
    family: Family,
    head: str,
    labels: Sequence[str],
    tail: str,
    values: Sequence[float],
) -> None:
    """Add a sample for each label text: `head` and `tail` are what its line has around that."""
    start = family.name + head
    pairs = zip(labels, values, strict=True)
    add_lines(bodies, family, [f"{start}{label}{tail}{value!r}\n" for label, value in pairs])


def add_lines(bodies: Bodies, family: Family, lines: Sequence[str]) -> None:
    body = bodies.setdefault(family.name, [])
    if lines:
        body.append("".join(lines).encode())


EXEMPLAR_CHARACTERS: Final = 128 - len("impression_id")
"""OpenMetrics allows 128 in the names and values of the labels of an exemplar."""


def exemplar_of(examples: Iterable[Example], metric: Metric) -> str:
    """The end of a line for the search that scored worst by `metric`, which the examples are
    ordered by: its impression id, score and time; "" where none has a score and an id that fits.

    Of what Prometheus 2.42 does not take as it is, a long id is dropped, an escaped one stays
    escaped and names nothing, and an odd character can cost the whole scrape.
    """
    fit = (one for one in examples if one.sort_score != NO_SCORE and _fits(one.impression_id))
    for one in first_examples(fit, 1):
        score = (-one.sort_score if metric.direction == "down" else one.sort_score) / metric.unit
        return f' # {{impression_id="{one.impression_id}"}} {score:.9g} {one.time_ms / 1000!r}'
    return ""


def _fits(id_: str) -> bool:
    return len(id_) <= EXEMPLAR_CHARACTERS and id_.isprintable() and escape(id_) == id_


def with_exemplar(chunks: Iterable[bytes], series: str, exemplar: str) -> tuple[bytes, ...]:
    """A text in OpenMetrics whose line of this series, if it is there, ends with the exemplar. Of
    a counter: on a gauge Prometheus refuses the whole scrape, as it does in the plain format."""
    start, found = f"{series} ".encode(), list(chunks)
    for index, chunk in enumerate(found):
        at = chunk.find(start)
        if at >= 0:
            end = chunk.index(b"\n", at)
            found[index] = chunk[:end] + exemplar.encode() + chunk[end:]
            break
    return tuple(found)


Sample: TypeAlias = tuple[Family, str, float]
"""(family, labels, value)."""


def experiment_samples(findings: Findings) -> Iterator[Sample]:
    """Yield all samples of all experiments. An undefined value has none."""
    for finding in findings.experiments:
        yield from _of_experiment(finding)
        yield from _of_variants(finding)
        if finding.interleaving is not None:
            yield from _of_interleaving(finding.experiment, finding.interleaving)


def _of_experiment(finding: Finding) -> Iterator[Sample]:
    labels = f'experiment="{escape(finding.experiment)}"'
    info = f'{labels},control="{escape(finding.control)}",unit="{escape(finding.unit)}"'
    yield FAMILIES["relevanced_experiment_info"], info, 1
    yield FAMILIES["relevanced_experiment_planned_impressions"], labels, float(
        finding.planned_impressions
    )
    yield FAMILIES["relevanced_experiment_crossover_users"], labels, finding.crossover_users
    yield FAMILIES["relevanced_experiment_without_control"], labels, float(finding.without_control)
    if finding.srm is not None:
        yield FAMILIES["relevanced_experiment_srm_log_evalue"], labels, finding.srm.log_evalue
    for metric in finding.variants[0].metrics if finding.variants else ():
        with_role = f'{labels},metric="{escape(metric.metric)}",role="{metric.role}"'
        yield FAMILIES["relevanced_experiment_metric_info"], with_role, 1


def _of_variants(finding: Finding) -> Iterator[Sample]:
    grouping = f'grouping="{escape(finding.stratify_by or "")}"'
    for variant in finding.variants:
        arm = f'experiment="{escape(finding.experiment)}",variant="{escape(variant.variant)}"'
        yield FAMILIES["relevanced_experiment_impressions"], arm, variant.impressions
        yield FAMILIES["relevanced_experiment_users"], arm, variant.users
        for metric in variant.metrics:
            labels = f'{arm},metric="{escape(metric.metric)}"'
            yield FAMILIES["relevanced_experiment_scored_impressions"], labels, metric.scored
            yield from _fields(METRIC_FIELDS, "", metric, labels)
            if metric.defined is not None:
                yield from _fields(DEFINED_FIELDS, "defined_", metric.defined, labels)
            if metric.stratified is not None:
                yield from _fields(STRATIFIED_FIELDS, "stratified_", metric.stratified, labels)
                for segment in metric.stratified.segments:
                    within = f'{labels},{grouping},segment="{escape(segment.segment)}"'
                    yield from _fields(SEGMENT_FIELDS, "segment_", segment, within)


def _of_interleaving(experiment: str, lists: Interleaving) -> Iterator[Sample]:
    labels = f'experiment="{escape(experiment)}"'
    for outcome, count in (("win", lists.wins), ("tie", lists.ties), ("loss", lists.losses)):
        yield FAMILIES[
            "relevanced_experiment_interleaving_impressions"
        ], f'{labels},outcome="{outcome}"', count
    yield from _fields(INTERLEAVING_FIELDS, "interleaving_", lists, labels)


BOUNDS: Final = ("difference", "lower", "upper")
METRIC_FIELDS: Final = (
    *BOUNDS,
    *("relative_difference", "relative_lower", "relative_upper", "log_evalue", "p_value"),
    *("guardrail_log_evalue", "minimum_detectable_effect", "design_effect", "mean", "discovery"),
)
DEFINED_FIELDS: Final = ("mean", *BOUNDS, "shares_differ")
STRATIFIED_FIELDS: Final = (*BOUNDS, "covered")
SEGMENT_FIELDS: Final = (*BOUNDS, "discovery")
INTERLEAVING_FIELDS: Final = ("delta", "lower", "upper", "log_evalue")
NAMED_OTHERWISE: Final = {"mean": "score", "covered": "ratio", "delta": "preference"}
"""Field of a finding → how its family calls it."""


def _fields(fields: Iterable[str], part: str, finding: object, labels: str) -> Iterator[Sample]:
    for field in fields:
        value = getattr(finding, field)
        if value is not None:
            name = NAMED_OTHERWISE.get(field, field)
            yield FAMILIES[f"relevanced_experiment_{part}{name}"], labels, float(value)


JUDGEMENTS: Final = "judgements"


def file_samples(
    judgements: Sequence[LaneFiles], classes: Mapping[str, Sequence[LaneFiles]]
) -> Iterator[Sample]:
    """The samples of the lanes' files of judgements, and of classes by attribute; none where
    nothing was refused."""
    yield from _earliest(JUDGEMENTS, judgements)
    for attribute, lanes in classes.items():
        refused = Counter(entry for lane in lanes for entry in lane.refused)
        for entry, count in sorted(refused.items()):
            labels = f'attribute="{escape(attribute)}",{_named(entry)}'
            yield FAMILIES["relevanced_query_classes_refused_lanes"], labels, count
        yield from _earliest(f"classes of {attribute}", lanes)


def _earliest(files: str, lanes: Sequence[LaneFiles]) -> Iterator[Sample]:
    for lane in lanes:
        for entry in lane.refused:
            labels = f'files="{escape(files)}",{_named(entry)},lane="{lane.lane}"'
            yield FAMILIES[
                "relevanced_refused_file_earliest_start_timestamp_seconds"
            ], labels, lane.earliest_ms / 1000


def _named(entry: IndexEntry) -> str:
    return f'name="{escape(entry.name)}",start="{start_text(entry.start_ms)}"'


def layout_samples(snapshot: Snapshot, plan: Plan) -> Iterator[Sample]:
    """The samples of a snapshot."""
    generations = Counter(one.generation for one in snapshot.lanes if one.generation is not None)
    for generation, lanes in sorted(generations.items()):
        yield FAMILIES["relevanced_layout_lanes"], f'generation="{generation}"', lanes
    yield from _since(snapshot, plan)


def _since(snapshot: Snapshot, plan: Plan) -> Iterator[Sample]:
    coverage = snapshot.coverage
    if coverage is None:
        return
    first_ms = {one.window: one.first_ms for one in snapshot.windows if one.view == SETTLED}
    for index, window in enumerate(plan.timing.windows):
        for metric, one in enumerate(plan.metrics):
            for grouping in plan.grouping_names:
                since_ms = coverage.since(metric, grouping, index)
                begins_ms = first_ms.get(window.name)
                if since_ms is not None and (begins_ms is None or since_ms > begins_ms):
                    labels = {"metric": one.name, "grouping": grouping, "window": window.name}
                    text = ",".join(f'{name}="{escape(of)}"' for name, of in labels.items())
                    yield FAMILIES[
                        "relevanced_column_since_timestamp_seconds"
                    ], text, since_ms / 1000


def _bytes_of(head: QueryHead) -> int:
    return sum(head.hours.values()) + sum(head.examples.values())


def query_samples(snapshot: Snapshot) -> Iterator[Sample]:
    """The samples of a snapshot; none where no lane keeps queries."""
    heads = [lane.queries for lane in snapshot.lanes if lane.queries is not None]
    if not heads:
        return
    yield FAMILIES["relevanced_query_tables_bytes"], "", sum(map(_bytes_of, heads))
    # Of lanes that closed an earlier hour last, nothing counts: they are of another hour.
    latest = max(head.closed_ms or 0 for head in heads)
    counts = [head.last_counts for head in heads if head.closed_ms == latest]
    impressions = sum(whole for _, whole in counts)
    if impressions:
        yield FAMILIES["relevanced_query_other_ratio"], "", sum(
            other for other, _ in counts
        ) / impressions
