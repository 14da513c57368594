"""Differences between the tensors of two files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tsarchive.diffing.report import Change
from tsarchive.formats.contents import TensorContent
from tsarchive.formats.reading import Reading


def tensor_changes(
    before: Mapping[str, TensorContent],
    after: Mapping[str, TensorContent],
    readings: tuple[Reading, Reading],
    *,
    names: Mapping[str, str] | None = None,
    step: Callable[[str], None] = lambda tensor: None,
) -> Iterator[Change]:
    """Yield the differences of tensors, by their names before.

    ``names`` tells the name after of tensors in modules that were renamed. ``step`` is called with
    the name of each tensor when it has been compared.
    """
    raise NotImplementedError
