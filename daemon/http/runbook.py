"""The runbook as HTML: the whole at `/runbook`, one section at `/runbook/NAME`. Pure.

`runbook.md` is the one text of it, for people who read files and for this page. What it links to
beside itself is not served here: of such a link its text stays, and the path of the document.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ..changes import sentences

PATH: Final = "/runbook"
SECTION_PATH: Final = PATH + "/{alert}"
_HERE: Final = "daemon/http"
"""Where the file stands in the project: its links are relative to that."""
_ALERT: Final = "Relevanced"
"""What the names of all alerts begin with."""
_COMMENT: Final = re.compile(r"^<!--.*?-->\n", re.M)
_NAME_CHARACTERS: Final = 80
"""So much of an unknown name is repeated."""


@dataclass(frozen=True)
class RunbookPage:
    """One page, and whether there is such a section."""

    body: bytes
    exists: bool = True


@dataclass(frozen=True)
class _Section:
    """A heading, and what stands below it up to the next one of its level."""

    title: str
    tokens: Sequence[Token]
    anchors: frozenset[str]
    """Of this heading and of those inside."""

    @property
    def anchor(self) -> str:
        return anchor(self.title)


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@cache
def whole() -> RunbookPage:
    """The page of the whole runbook, with a list of the alerts."""
    tokens = _parsed()
    body = f"<details><summary>Alerts</summary>{_names('#')}</details>{_html(tokens, None)}"
    return RunbookPage(_framed("Runbook", body, up="./"))


def section(name: str) -> RunbookPage:
    """The page of the section of an alert, or of another heading by its anchor, whatever its case;
    of an unknown name one that lists the alerts."""
    known = name.lower()
    return _of_section(known) if known in _sections() else _unknown(name)


@cache
def _of_section(name: str) -> RunbookPage:
    found = _sections()[name]
    body = f'{_html(found.tokens, found.anchors)}<p><a href="../runbook">The whole runbook</a></p>'
    return RunbookPage(_framed(found.title, body, up="../"))


def _unknown(name: str) -> RunbookPage:
    cut = name[:_NAME_CHARACTERS] + "…" * (len(name) > _NAME_CHARACTERS)
    said = f"The runbook has no section <q><bdi>{escape(sentences.printable(cut))}</bdi></q>"
    body = f"<h1>{said}</h1><p>It has one for each alert:</p>{_names('')}"
    body += '<p><a href="../runbook">The whole runbook</a></p>'
    return RunbookPage(_framed("No such section", body, up="../"), exists=False)


def _names(before: str) -> str:
    """The list of alerts, each a link: `before` and its anchor."""
    alerts = [one for one in _sections().values() if one.title.startswith(_ALERT)]
    items = (f'<li><a href="{before}{one.anchor}">{one.title}</a></li>' for one in alerts)
    return f"<ul>{''.join(items)}</ul>"


def _framed(title: str, body: str, up: str) -> bytes:
    """A whole document. `up`: where the page of the scores is, relative to this one."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title} · relevanced</title>\n"
        f'<link rel="icon" href="{up}page/icon.svg" type="image/svg+xml">\n'
        f'<link rel="stylesheet" href="{up}page/page.css">\n'
        f'<script type="module" src="{up}page/theme.js"></script>\n</head>\n<body>\n'
        f'<header class="bar"><a class="name" href="{up}">relevanced</a></header>\n'
        f'<main class="prose">\n{body}\n</main>\n</body>\n</html>\n'
    ).encode()


def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


@cache
def _parsed() -> tuple[Token, ...]:
    text = files(__package__).joinpath("runbook.md").read_text(encoding="utf-8")
    return tuple(_markdown().parse(_COMMENT.sub("", text)))


@cache
def _sections() -> dict[str, _Section]:
    """By anchor, in the order of the text."""
    found = {}
    tokens = _parsed()
    starts = [at for at, token in enumerate(tokens) if token.type == "heading_open"]
    for at in starts:
        ends = (end for end in starts if end > at and tokens[end].tag <= tokens[at].tag)
        part = tokens[at : next(ends, len(tokens))]
        title = tokens[at + 1].content
        found[anchor(title)] = _Section(title, part, frozenset(map(anchor, _headings(part))))
    return found


def _headings(tokens: Sequence[Token]) -> Iterator[str]:
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            yield tokens[at + 1].content


def _html(tokens: Sequence[Token], anchors: frozenset[str] | None) -> str:
    """The text of a page on which these anchors are; None: all of them."""
    shown = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token = token.copy(attrs={"id": anchor(tokens[at + 1].content)})
        if token.type.startswith("heading_") and anchors is not None:
            token = token.copy(tag=f"h{int(token.tag[1]) - int(tokens[0].tag[1]) + 1}")
        elif token.children:
            token = token.copy(children=list(_linked(token.children, anchors)))
        shown.append(token)
    markdown = _markdown()
    return str(markdown.renderer.render(shown, markdown.options, {}))


def _linked(children: Sequence[Token], anchors: frozenset[str] | None) -> Iterator[Token]:
    """The parts of a line, its links leading to what is served."""
    path = ""
    for token in children:
        if token.type == "link_open":
            path, mark, name = str(token.attrs["href"]).partition("#")
            if not path and anchors is not None and name not in anchors:
                mark = ""  # it is a page beside this one
            token = token.copy(attrs={"href": mark + name})
        if not path or not token.type.startswith("link_"):
            yield token
        elif token.type == "link_close":
            yield Token("text", "", 0, content=" (")
            named = posixpath.normpath(posixpath.join(_HERE, path))
            yield Token("code_inline", "code", 0, content=named)
            yield Token("text", "", 0, content=")")
