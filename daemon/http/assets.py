"""The files of the page at `/`, read once: plain HTML, CSS and JavaScript, all of it our own."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """One file and how it is announced."""

    body: bytes
    kind: str


def read_assets() -> dict[str, Asset]:
    """Path → file; the one of the page itself is `/`."""
    found = {}
    for file in files(f"{__package__}.page").iterdir():
        kind = KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            found[path] = Asset(file.read_bytes(), kind)
    return found


ASSETS: Final = read_assets()
