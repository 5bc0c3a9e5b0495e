"""Which parts of a lane's open state each block of its log holds, and which blocks become one.

Small blocks at the end of the log are merged into the one that is written, so that many small
commits leave few keys.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics.arithmetic import distinct
from relevanced.metrics.lists import Integers

from .head import BlockEntry

NO_SLOTS: Final[Integers] = np.zeros(0, np.int64)
MERGED_ENTRIES: Final = 4096
"""Blocks are not merged beyond this size: it bounds what one commit rewrites."""


@dataclass(eq=False)
class Block:
    """A block in memory: which parts of the lane's state it holds. `entry` is None until it is
    written."""

    first_slot: int
    end_slot: int
    first_serial: int
    end_serial: int
    slots: Integers = field(default_factory=lambda: NO_SLOTS)
    """Impressions of earlier blocks that it changes, ascending."""
    relisted: set[int] = field(default_factory=set)
    bound: set[int] = field(default_factory=set)
    gone: dict[int, int] = field(default_factory=dict)
    entry: BlockEntry | None = None

    def written(self, entry: BlockEntry) -> None:
        """It stands in the log from now on. There it is needed again for merging only, so its many
        slots take no memory where it is too large for that."""
        self.entry = entry
        if self.size >= MERGED_ENTRIES:
            self.slots = NO_SLOTS

    @property
    def size(self) -> int:
        """How many things it holds, at the most: once it is written, as many as then."""
        if self.entry is not None:
            return self.entry.size
        born = self.end_slot - self.first_slot + self.end_serial - self.first_serial
        return born + len(self.slots) + len(self.bound) + len(self.gone)


def joined(earlier: Block, later: Block) -> Block:
    """Two blocks that follow each other as one."""
    of_others = later.slots[later.slots < earlier.first_slot]
    return Block(
        first_slot=earlier.first_slot,
        end_slot=later.end_slot,
        first_serial=earlier.first_serial,
        end_serial=later.end_serial,
        slots=distinct(np.concatenate((earlier.slots, of_others))),
        relisted=earlier.relisted | {slot for slot in later.relisted if slot < earlier.first_slot},
        bound=earlier.bound | {serial for serial in later.bound if serial < earlier.first_serial},
        gone=earlier.gone | {s: d for s, d in later.gone.items() if s < earlier.first_serial},
    )


def merged(log: list[Block], fresh: Block) -> tuple[Block, list[Block]]:
    """The block to write instead of `fresh`, and the blocks at the end of the log that it takes the
    place of.

    A block is merged while it is at most twice as large as what follows it, so each thing is
    rewritten a few times.
    """
    replaced: list[Block] = []
    for block in reversed(log):
        if block.size > 2 * fresh.size or block.size + fresh.size > MERGED_ENTRIES:
            break
        fresh = joined(block, fresh)
        replaced.append(block)
    return fresh, replaced
