"""Assertions about modules, for tests."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsarchive.comparing import RecordDifference
from tsarchive.jitter import check_jitter

if TYPE_CHECKING:
    import torch


def assert_no_jitter(
    module: torch.nn.Module,
    *,
    map_location: str | torch.device | None = None,
    graph: bool = True,
    canonical: bool = False,
    digest: str | None = None,
) -> None:
    """Assert that every save of ``module`` gives the same archive.

    It is saved twice; saved, loaded and saved again; and its code and debug records are printed
    anew from the graphs that were read. ``module`` is scripted, traced, or from ``tsarchive.load``;
    ``map_location`` is where its archive is loaded to, as for ``load``. ``graph=False`` skips the
    graphs: for code of the few forms that torch, too, writes differently once it has read them.
    ``canonical=True`` also saves the canonical form in two fresh processes with other hash seeds,
    which takes some seconds.

    ``digest`` is the SHA-256 of the canonical form in hexadecimal digits, for a test that pins
    today's bytes, in every process and on every machine with the same version of torch. It depends
    on the weights: seed the generator before they are drawn. Run the test once with ``digest=""``:
    the failure tells the digest.

    Raises AssertionError that names the first record that differs and shows both sides of it, or
    the actual digest; ValueError for a malformed digest; and what ``save`` and ``load`` raise.
    """
    __tracebackhide__ = True
    if digest and not re.fullmatch("[0-9a-fA-F]{64}", digest):
        raise ValueError(f"a digest has 64 hexadecimal digits, unlike {digest!r}")
    report = check_jitter(module, map_location=map_location, canonical=canonical)
    _compare("saving twice", report.twice.same, report.twice.records)
    _compare("save, load and save", report.stable, report.records)
    if graph:
        found = report.graph
        changed = found.records or found.code or found.debug
        _compare("printing code from its graphs", found.stable, changed)
    if report.canonical is not None:
        process = "saving the canonical form in a fresh process"
        _compare(process, report.canonical.same, report.canonical.records)
    if digest is not None:
        _compare_digest(module, digest)


def _compare_digest(module: torch.nn.Module, expected: str) -> None:
    __tracebackhide__ = True
    from tsarchive.saving import save  # imports torch, which the pytest plugin must not

    data = io.BytesIO()
    save(module, data, canonical=True)
    found = hashlib.sha256(data.getvalue()).hexdigest()
    if found != expected.lower():
        held = f", not {expected}" if expected else ": give it as digest="
        raise AssertionError(f"the digest of the canonical form is {found}{held}")


def _compare(process: str, is_same: bool, records: Sequence[RecordDifference]) -> None:
    __tracebackhide__ = True
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
