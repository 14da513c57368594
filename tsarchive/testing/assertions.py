"""Assertions about modules, for tests."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsarchive.jitter import RecordDifference, check_jitter, differences

if TYPE_CHECKING:
    import torch


def assert_no_jitter(
    module: torch.nn.Module, *, map_location: str | torch.device | None = None
) -> None:
    """Fails unless ``module`` has one archive.

    It is saved twice, and saved, loaded and saved again. ``module`` is scripted, traced, or one
    that ``tsarchive.load`` gave; ``map_location`` is where its archive is loaded to, as for
    ``load``.

    Raises AssertionError that names the first record that differs and shows both sides of it;
    what ``save`` and ``load`` raise where they cannot do their part.
    """
    first, second = _saved(module), _saved(module)
    _compare("saving twice", first == second, tuple(differences(first, second)))
    report = check_jitter(module, map_location=map_location)
    _compare("save, load and save", report.stable, report.records)


def _saved(module: torch.nn.Module) -> bytes:
    from tsarchive.saving import save

    buffer = io.BytesIO()
    save(module, buffer)
    return buffer.getvalue()


def _compare(process: str, is_same: bool, records: Sequence[RecordDifference]) -> None:
    if not is_same:
        raise AssertionError(f"{process} gives different bytes: {_shown(records)}")


def _shown(records: Sequence[RecordDifference]) -> str:
    if not records:
        return "the records are equal, what stands between them is not"
    one, *more = records
    rest = f"\n{len(more)} more records differ" if more else ""
    sides = f"  first:  {_side(one.first)}\n  second: {_side(one.second)}"
    return f"{one.record} differs from byte {one.offset} on\n{sides}{rest}"


def _side(content: bytes | None) -> str:
    return "no such record" if content is None else repr(content)
