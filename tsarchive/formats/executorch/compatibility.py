"""Which runtimes of ExecuTorch read a program, as far as its tables tell.

Tables of every release are those of the one before, with fields behind them; a runtime reads over
fields that it does not know. What needs such a field does not run there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tsarchive.formats.compatibility import Compatibility, Reason, Row

from .content import Program
from .methods import Tensor
from .regions import Regions

# Source: the schemas, headers and runtimes of the tags of each release.
_RELEASES: Final = (
    "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5",
)  # fmt: skip
_NAME: Final = "ExecuTorch"
_RECORD: Final = "tables"

NOTES: Final = (
    "which kernels and backends a runtime was built with, and which versions of backends read the "
    "parts that were compiled for them, is not in the file",
    "programs run in ExecuTorch: torch itself runs none of them",
)


def compatibility(regions: Regions) -> Compatibility:
    """Return which runtimes read a program. Raises UnsupportedError for data without one."""
    program = regions.require_program()
    needed = [*_needed(program)]
    facts = {"program version": str(program.version)}
    backends = dict.fromkeys(d.backend for method in program.methods for d in method.delegates)
    needs = tuple(
        Reason("library", f"backend {name}", name, _RECORD, hint=f"Link the backend {name}")
        for name in backends
    )
    rows = tuple(_row(release, needed) for release in _RELEASES)
    return Compatibility((), libtorch=needs, mobile=rows, facts=facts, notes=NOTES)


def _row(release: str, needed: list[Reason]) -> Row:
    place = _RELEASES.index(release)
    reasons = [r for r in needed if r.since is None or _RELEASES.index(r.since) > place]
    return Row(f"{_NAME} {release}", not reasons, not reasons, tuple(reasons))


def _needed(program: Program) -> Iterator[Reason]:
    """Yield what a program needs that not all runtimes read, with the first that does."""
    if program.version != 0:
        text = f"the program has version {program.version}, and runtimes read 0"
        yield Reason("format", text, "program version", _RECORD)
    tensors = [v for method in program.methods for v in method.values if isinstance(v, Tensor)]
    if program.constants is not None and any(tensor.data_index for tensor in tensors):
        yield _field("constants in a segment", "0.2")
    if any(tensor.allocation and tensor.allocation.offset >= 1 << 32 for tensor in tensors):
        yield _field("a memory plan of more than 4 GiB", "0.2")
    if program.mutable_data:
        yield _field("initial values of buffers", "0.4")
    if any(tensor.is_external for tensor in tensors):
        yield _field("weights in a data file", "0.5")
    if program.named_data:
        yield _field("named data", "0.6")
    if any(tensor.device_type for tensor in tensors):
        yield _field("tensors on devices", "1.3")


def _field(what: str, since: str) -> Reason:
    return Reason("format", f"it does not read {what}", what, _RECORD, since=since)
