"""Which parts of a lane's open state each block of its log contains, and which blocks are merged.

Without merging, a commit per second would leave thousands of keys per lane, each of which a new
owner has to read. So small blocks at the end of the log are rewritten as one with the new block:
the blocks of a run halve in size, and their number grows with the logarithm of the commits.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Integers

from .head import BlockEntry

NO_SLOTS: Final[Integers] = np.zeros(0, np.int64)
MERGED_ENTRIES: Final = 4096
"""Blocks are not merged beyond this size, which bounds what one commit rewrites."""


@dataclass(eq=False)
class Block:
    """Which parts of a lane's state one block contains. `entry` is None until it is written."""

    first_slot: int
    end_slot: int
    first_serial: int
    end_serial: int
    slots: Integers = field(default_factory=lambda: NO_SLOTS)
    """Slots of earlier blocks whose impressions it changes, ascending."""
    relisted: set[int] = field(default_factory=set)
    """Those of them whose list changed."""
    bound: set[int] = field(default_factory=set)
    """Serials of earlier blocks whose feedback found its impression, but not its item."""
    joined: dict[int, int] = field(default_factory=dict)
    """Serials of earlier blocks whose feedback joined → the watermark at which it would expire."""
    entry: BlockEntry | None = None

    def written(self, entry: BlockEntry) -> None:
        """Note that the block is stored as `entry`. Its slots are needed for merging only, so they
        are dropped where it is too large to be merged again."""
        self.entry = entry
        if self.size >= MERGED_ENTRIES:
            self.slots = NO_SLOTS

    @property
    def size(self) -> int:
        """An upper bound of the entries that it contains; fixed when it is written."""
        if self.entry is not None:
            return self.entry.size
        new = self.end_slot - self.first_slot + self.end_serial - self.first_serial
        return new + len(self.slots) + len(self.bound) + len(self.joined)

    def entry_of(self, number: int, expires_ms: int) -> BlockEntry:
        """Return the block as the head lists it under this number."""
        return BlockEntry(
            number=number,
            first_slot=self.first_slot,
            end_slot=self.end_slot,
            first_serial=self.first_serial,
            end_serial=self.end_serial,
            expires_ms=expires_ms,
            size=self.size,
        )


def combined(earlier: Block, later: Block) -> Block:
    """Return two blocks that follow each other as one. Changes that `later` makes to what `earlier`
    brought are part of it: the block is encoded from the lane as it is now."""
    of_others = later.slots[later.slots < earlier.first_slot]
    return Block(
        first_slot=earlier.first_slot,
        end_slot=later.end_slot,
        first_serial=earlier.first_serial,
        end_serial=later.end_serial,
        slots=distinct(np.concatenate((earlier.slots, of_others))),
        relisted=earlier.relisted | {slot for slot in later.relisted if slot < earlier.first_slot},
        bound=earlier.bound | {serial for serial in later.bound if serial < earlier.first_serial},
        joined=earlier.joined | {s: e for s, e in later.joined.items() if s < earlier.first_serial},
    )


def merged(log: list[Block], new: Block) -> tuple[Block, list[Block]]:
    """Return the block to write instead of `new`, and the blocks at the end of the log that it
    replaces.

    A block is merged while it is at most twice as large as what follows it. So whatever is
    rewritten lands in a block half as large again, and each entry is rewritten a few times at most.
    """
    replaced: list[Block] = []
    for block in reversed(log):
        if block.size > 2 * new.size or block.size + new.size > MERGED_ENTRIES:
            break
        new = combined(block, new)
        replaced.append(block)
    return new, replaced
