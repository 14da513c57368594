"""How much of a file one page shows."""

from __future__ import annotations

from typing import Final

__all__ = ["LINES_PER_ROW", "MAX_FACT", "MAX_LINE", "MAX_TEXT", "ROWS"]

ROWS: Final = 2_000
"""Modules, tensors, operators, records, findings and planned values, of each this many, unless
the caller says otherwise."""

LINES_PER_ROW: Final = 5
"""Lines of code, and of user source, for each of these."""

MAX_TEXT: Final = 400
"""Letters of one name."""

MAX_FACT: Final = 4_000
"""Letters of one fact or message, which may list many names."""

MAX_LINE: Final = 1_000
"""Letters of one line of code."""
