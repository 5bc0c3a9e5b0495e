"""Texts that a spreadsheet would take for a formula, in CSV: an apostrophe before one, as in
spreadsheets themselves, makes it a text. What is written so is read back as it was. Pure.
"""

from typing import Final

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
APOSTROPHE: Final = "'"


def escaped_formula(text: str) -> str:
    """The text with an apostrophe before it where it begins like a formula. One that begins with
    apostrophes and then so gets one more: otherwise it could not be told from an escaped one.

    >>> [escaped_formula(text) for text in ("-a", "'-a", "a-", "'a")]
    ["'-a", "''-a", 'a-', "'a"]
    """
    return f"{APOSTROPHE}{text}" if _is_formula(text) else text


def unescaped_formula(text: str) -> str:
    """The text that was escaped, and any other as it is.

    >>> [unescaped_formula(text) for text in ("'-a", "''-a", "a-", "'a", "-a")]
    ['-a', "'-a", 'a-', "'a", '-a']
    """
    is_escaped = text.startswith(APOSTROPHE) and _is_formula(text)
    return text.removeprefix(APOSTROPHE) if is_escaped else text


def _is_formula(text: str) -> bool:
    return text.lstrip(APOSTROPHE).startswith(FORMULA_STARTS)
