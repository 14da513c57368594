"""Bytes of the texts and copies of values, which operators that show or copy them take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from tsarchive.operators.costs import NUMBER, POINTER, size_of_text

_PER_ELEMENT: Final = 24  # characters of a number in the text of a tensor


def text_sizes(values: Any) -> Iterator[int]:
    """Bytes of the text of values, part by part.

    A value that is held twice is shown twice, so that a few lists can have a text without end.
    """
    return map(_text_of_part, _parts(values))


def copied_sizes(value: Any) -> Iterator[int]:
    """The same for a copy that shares nothing."""
    return (POINTER for _ in _parts((value,)))


def _parts(values: Any) -> Iterator[Any]:
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, (list, tuple)):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value.keys())
            pending.extend(value.values())
        yield value


def _text_of_part(value: Any) -> int:
    if isinstance(value, str):
        return size_of_text(value)
    if isinstance(value, torch.Tensor):
        return _PER_ELEMENT * (value.numel() + 2)
    return NUMBER
