"""The mark that some programs, Excel among them, put before UTF-8 text."""

import codecs


def without_mark(text: bytes) -> bytes:
    """The text without a UTF-8 byte order mark at its start.

    >>> without_mark(codecs.BOM_UTF8 + b"301 0 d7 1")
    b'301 0 d7 1'
    """
    return text.removeprefix(codecs.BOM_UTF8)
