"""Limits on how much of a file one page shows."""

from __future__ import annotations

from typing import Final

ROWS: Final = 2_000
"""The default number of modules, of tensors, of operators, of records, of findings and of planned
values.
"""

LINES_PER_ROW: Final = 5
"""Lines of code, and of user source, per row."""

MAX_TEXT: Final = 400
"""Characters of one name."""

MAX_FACT: Final = 4_000
"""Characters of one fact or message, which may list many names."""

MAX_LINE: Final = 1_000
"""Characters of one line of code."""
