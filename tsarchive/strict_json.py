"""JSON records with exactly one meaning: no duplicate fields, bounded nesting."""

from __future__ import annotations

import json
import re
from typing import Any

from tsarchive.errors import FormatError

_BRACKET = re.compile(r"[\[\]{}]")
# Maximum nesting of lists and objects. The parser recurses and, with a high recursion limit,
# crashes the process; unbalanced brackets in strings count as well.
MAX_DEPTH = 900


def parse_object(text: bytes, record: str, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return the JSON object that a record holds.

    Raises FormatError if the record is not JSON, not an object, nested more deeply than
    ``max_depth``, or has a field twice.
    """
    values = parse_text(text, record, "the record", max_depth)
    if not isinstance(values, dict):
        raise FormatError("the record is not a JSON object", record=record)
    return values


def parse_text(text: str | bytes, record: str, what: str, max_depth: int = MAX_DEPTH) -> Any:
    """Parse the JSON text of a record, or one that is embedded in it; ``what`` names it in errors.

    Raises FormatError as :func:`parse_object`.
    """
    try:
        # Decoded first: given bytes, json guesses the encoding and imports its codec.
        decoded = text if isinstance(text, str) else text.decode()
        check_depth(decoded, record, max_depth)
        return json.loads(decoded, object_pairs_hook=_unique)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what} is not JSON: {error}", record=record) from None


def check_depth(text: str, record: str, max_depth: int = MAX_DEPTH) -> None:
    """Raise FormatError for JSON nested so deeply that a parser would exhaust the stack."""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
        if depth > max_depth:
            message = "the record is nested too deeply"
            raise FormatError(message, record=record, limit=max_depth)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; readers differ in which of two fields of one name they take."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("an object has a field twice")
    return values
