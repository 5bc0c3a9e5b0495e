"""Content negotiation: OpenMetrics or the text format, gzip or not. Pure.

The files of the web page at `/`, read once: plain HTML, CSS and JavaScript.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final


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


# The page shows names out of events, which may be anything: the browser runs no script and loads no
# file but those of this folder.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """One file and its Content-Type."""

    body: bytes
    content_type: str


def read_assets() -> dict[str, Asset]:
    """Path → file; `index.html` is at `/`."""
    found = {}
    for file in files(f"{__package__}.page").iterdir():
        content_type = CONTENT_TYPES.get("." + file.name.rpartition(".")[2])
        if content_type is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            found[path] = Asset(file.read_bytes(), content_type)
    return found


ASSETS: Final = read_assets()
