"""Which values of a commit are staged, and which are arguments of its script."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.storage import (
    INLINE_BYTES,
    INLINE_BYTES_IN_ALL,
    Commit,
    call_of,
    client,
    lane_store as commits,
)

PREFIX = "{relevanced:3}:"
STAGE = f"{PREFIX}stage:a:7:"
SMALL, LARGE = b"s" * INLINE_BYTES, b"l" * (INLINE_BYTES + 1)


def commit(pages: dict[str, bytes], blocks: dict[str, bytes]) -> Commit:
    fields = {"offsets": msgspec.json.encode({"t": 1})}
    return Commit(3, "a", 7, {**pages, **blocks}, fields, {"1": b"x"}, ["open:6"], [*pages], ())


def test_small_pages_are_arguments_and_the_rest_is_staged() -> None:
    pages = {"totals:0": SMALL, "totals:1": LARGE, "totals:2": b""}
    call = call_of(commit(pages, {"open:8": b"b"}), PREFIX)
    assert call.staged == {f"{STAGE}0": LARGE, f"{STAGE}1": b"", f"{STAGE}2": b"b"}
    written = ["totals:0", "totals:1", "totals:2", "open:8"]
    names = ["head", "names", "changes", *(f"stage:a:7:{n}" for n in range(3)), *written, "open:6"]
    assert call.keys == [PREFIX + name for name in names]
    assert call.arguments[:8] == ["a", 7, 3, 3, 1, 1, 1, 1]
    assert call.arguments[8:] == ["", 0, SMALL, b"", b"", b"", "1", b"x", "offsets", b'{"t":1}']


def test_script_has_a_limited_size() -> None:
    pages = {f"totals:{number}": SMALL for number in range(100)}
    call = call_of(commit(pages, {}), PREFIX)
    assert len(call.staged) == 100 - INLINE_BYTES_IN_ALL // INLINE_BYTES


@pytest.mark.parametrize("share", [0, 5, 10**6])
@given(sizes=st.lists(st.integers(0, 9), max_size=9))
def test_every_page_is_sent_once(share: int, sizes: list[int]) -> None:
    pages = {f"totals:{number}": b"%d" % number * size for number, size in enumerate(sizes)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "INLINE_BYTES", 4)
        patch.setattr(commits, "INLINE_BYTES_IN_ALL", share)
        call = call_of(commit(pages, {"open:8": b"b"}), PREFIX)
    staged = iter(call.staged.values())
    sent = [value or next(staged) for value in call.arguments[10 : 11 + len(pages)]]
    assert sent == [*pages.values(), b"b"] and next(staged, None) is None


MANY = st.integers(0, 6_000)


@given(MANY, MANY, MANY, MANY, st.none() | MANY, st.integers(0, 60))
def test_a_script_gets_less_than_4000_keys_and_arguments(
    pages: int, blocks: int, names: int, unlinked: int, kept: int | None, size: int
) -> None:
    """Whatever a commit is made of, and what is staged for it says all of it."""
    listed = {f"totals:{n}": b"s" * size for n in range(pages)}
    unread = {f"open:{n}": b"b" for n in range(blocks)}
    made = replace(
        commit(listed, unread),
        names={str(n): b"[1]" for n in range(names)},
        unlinked=[f"gone:{n}" for n in range(unlinked)],
        kept=None if kept is None else [f"hours:{n}" for n in range(kept)],
        kept_unread=() if kept is None else ["queries:0"],
    )
    call = call_of(made, PREFIX)
    assert len(call.keys) + len(call.arguments) < 4_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "MOST_ARGUMENTS", 10**6)
        whole = call_of(made, PREFIX)
    if len(call.arguments) == 2:
        assert call.keys[:3] == whole.keys[:3] and call.arguments == whole.arguments[:2]
        staged = call.staged[call.keys[3]]
        assert staged == client.packed_texts(whole.keys) + client.packed_texts(whole.arguments)
        assert call.keys[3] == f"{STAGE}{len(whole.staged)}", "a claim counts what was staged"
        assert call.staged.items() >= whole.staged.items()
    else:
        assert call == whole
