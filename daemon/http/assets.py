"""The files of the web page at `/`, read once: plain HTML, CSS and JavaScript."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

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
