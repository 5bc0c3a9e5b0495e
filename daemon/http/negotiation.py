"""Content negotiation: OpenMetrics or the text format, gzip or not. Pure."""

from collections.abc import Iterable, Mapping


def wants_openmetrics(accept: str) -> bool:
    """True if the Accept header rates OpenMetrics 1.0 at least as high as plain text."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for kind, parameters in _items(accept):
        version = parameters.get("version", "1.0.0")
        if kind == "application/openmetrics-text" and version not in ("0.0.1", "1.0.0"):
            continue
        kind = "text/plain" if kind in ("*/*", "text/*") else kind
        if kind in best:
            best[kind] = max(best[kind], _quality(parameters))
    wanted = best["application/openmetrics-text"]
    return wanted > 0 and wanted >= best["text/plain"]


def wants_gzip(accept_encoding: str) -> bool:
    """True if the Accept-Encoding header allows gzip."""
    qualities = {coding: _quality(parameters) for coding, parameters in _items(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def _items(header: str) -> Iterable[tuple[str, dict[str, str]]]:
    for item in header.lower().split(","):
        name, *rest = (part.strip() for part in item.split(";"))
        pairs = (part.partition("=") for part in rest)
        yield name, {key.strip(): value.strip().strip('"') for key, _, value in pairs}


def _quality(parameters: Mapping[str, str]) -> float:
    """The quality `q` of an item, 1 by default; 0, which refuses it, if it is not a number."""
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
