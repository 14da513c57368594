"""How much work an audit may put into the pickles of one file: all records have it in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# A step is the time of one opcode, half a microsecond. Small files may take so many in any case:
# lists of words have many beginnings.
_FREE: Final = 1 << 22
_FREE_SEARCH: Final = 1 << 23
# A file has at least a byte for each opcode, so that what is stored plainly is read to its end.
_MOST_READING: Final = 1 << 26
# Pickles may begin anywhere. In random bytes, a search takes a step for some 600 of them, in lists
# of words for some 7.
_BYTES_OF_SEARCH: Final = 1 << 6
_BYTES_OF_SEARCH_IN_WORDS: Final = 1 << 2
_MOST_SEARCH_IN_WORDS: Final = 1 << 25


@dataclass(slots=True)
class Budget:
    """Steps that are left."""

    left: int

    def spend(self, steps: int) -> None:
        """Take steps away, be they there or not."""
        self.left -= steps

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


@dataclass(frozen=True, slots=True)
class Budgets:
    """``reading`` is for pickles where pickles stand, ``searching`` for those that hide."""

    reading: Budget
    searching: Budget

    @classmethod
    def of_file(cls, size: int) -> Budgets:
        """The budgets for a file of so many bytes."""
        reading = max(_FREE, min(size, _MOST_READING))
        in_words = min(size // _BYTES_OF_SEARCH_IN_WORDS, _MOST_SEARCH_IN_WORDS)
        searching = max(_FREE_SEARCH, in_words, size // _BYTES_OF_SEARCH)
        return cls(Budget(reading), Budget(searching))
