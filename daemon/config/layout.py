"""The layout of a configuration: which columns its rows have. Pure.

The join says which feedback counts for which impression, and names the namespace. The layout says
what is counted of it: metrics, groupings, windows, experiments, propensities, attributes that are
derived from the query, judged metrics, history. A namespace
goes from layout to layout, and keeps the columns that both have. What is stored of a layout is the
text of its configuration, so that every process can work under it whatever its own file says.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Final

from . import derive, sources
from .fingerprint import describe_rows, join_values, layout_values
from .loading import load
from .settings import Config

DIGEST_DIGITS: Final = 12


@dataclass(frozen=True)
class Layout:
    """A layout of a namespace: the digest of what it says, and its text."""

    digest: str
    text: str


def layout_of(config: Config) -> Layout:
    """The layout of a configuration: two that say the same have the same digest."""
    canonical = json.dumps(
        layout_values(config), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_DIGITS]
    return Layout(digest, describe_rows(config))


def _join_of(config: Config) -> dict[str, object]:
    """What the join depends on, as far as the text of a layout says it: it has no sources."""
    return {key: value for key, value in join_values(config).items() if key != sources.SECTION}


def under(config: Config, layout: Layout) -> Config:
    """The configuration with the layout of another one of the same join.

    Raises ConfigError where this program does not know something that the text names, and
    ValueError where the text is that of another join.
    """
    of_layout = load(layout.text, {}, f"layout {layout.digest}")
    if _join_of(of_layout) != _join_of(config):
        raise ValueError(f"layout {layout.digest}: is that of another join than this configuration")
    return replace(
        config,
        windows=of_layout.windows,
        metrics=of_layout.metrics,
        segments=replace(
            of_layout.segments,
            max_segments=config.segments.max_segments,
            version_attribute=config.segments.version_attribute,
            max_values=of_layout.plan.admitted_values,
        ),
        history=of_layout.history,
        experiments=of_layout.experiments,
        propensities=of_layout.propensities,
        derive=derive.with_directories(of_layout.derive, config.derive),
        queries=replace(
            of_layout.queries,
            days=config.queries.days,
            key=config.queries.key,
            key_file=config.queries.key_file,
        ),
        judgements=replace(of_layout.judgements, directory=config.judgements.directory),
    )
