"""The risks of operators: what each can do beside computing. Torch is not needed to ask.

``risks.txt`` is the table. A paragraph begins with the namespaces, the risk and the reason of its
operators, ``[aten: memory] reason``; torchbind classes stand under ``classes``. Names follow, below
the evidence that keeps them within their tensors, which stands behind ``#`` as ``bound: evidence``.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from tsarchive.ir.names import NATIVE_PREFIX

from .registry import table_text


class Risk(Enum):
    """The worst that an operator or a class bound from C++ can do."""

    COMPUTE = "compute"
    """Nothing but what it gives back, and what it writes to its own arguments."""
    OUTPUT = "output"
    """Prints, warns, or marks a span for a profiler."""
    RANDOMNESS = "randomness"
    """Draws from the random numbers of the process."""
    PROCESS_INFORMATION = "process information"
    """Tells about the machine or the process: devices, clock, settings of this thread."""
    GLOBAL_STATE = "global state"
    """Changes what other code of the process does."""
    MEMORY = "memory"
    """Reads or writes outside of its tensors, or may end the process, when given bad arguments."""
    FILES = "files"
    """Opens, reads or writes files."""
    PROCESSES = "processes"
    """Runs code elsewhere: remote calls, other processes."""
    NETWORK = "network"
    """Talks to other machines or devices."""
    NATIVE_CODE = "native code"
    """Runs a program that comes with the archive, or Python."""
    FOREIGN = "foreign"
    """Belongs to a library that is not part of torch: only its authors know what it does."""
    UNKNOWN = "unknown"
    """An internal of torch, or newer than this table: nobody has looked at it for archives."""


FORMS: Final = frozenset({"prim::Print", "prim::fork", "prim::awaitable", "prim::tolist"})
"""Functions with a bare name that do more than arithmetic, all others of which are syntax."""


REFUSED: Final = frozenset(
    {
        Risk.GLOBAL_STATE, Risk.MEMORY, Risk.FILES, Risk.PROCESSES, Risk.NETWORK,
        Risk.NATIVE_CODE, Risk.FOREIGN, Risk.UNKNOWN,
    }
)  # fmt: skip


class Bound(Enum):
    """The reason why an operator stays within its tensors, whatever arguments it is given."""

    LANGUAGE = "language"
    """It works on numbers, strings and containers, or reads attributes of tensors."""
    ITERATOR = "iterator"
    """TensorIterator computes the sizes; no index, size or divisor comes from data."""
    VIEW = "view"
    """It makes a view, or moves elements, by sizes and strides that a function checks."""
    COMPOSITE = "composite"
    """It is written with other operators that are allowed, and touches no memory itself."""
    CHECKED = "checked"
    """Torch checks the indices, sizes, offsets and divisors before its kernel runs."""
    FACTORY = "factory"
    """It allocates as much memory as its sizes tell, which torch checks, and fills it."""
    GUARDED = "guarded"
    """Torch does not check, or not all: a guard of ``tsarchive/run`` does."""
    LIBRARY = "library"
    """It hands sizes that were checked to LAPACK, oneDNN, FBGEMM or the like."""


class Row(NamedTuple):
    """A decision of the table.

    ``pattern`` is a qualified name (``aten::save``), one with an overload
    (``aten::manual_seed.generator``), a class (``quantized.LinearPackedParamsBase``), or the
    beginning of such names with ``*`` behind it; ``reason`` says what they do. ``evidence`` names
    what keeps them within their tensors, in torch's ``aten/src/ATen/native`` or in this library;
    a row without them is refused, whatever its risk.
    """

    pattern: str
    risk: Risk
    reason: str
    bound: Bound | None = None
    evidence: str = ""

    @property
    def is_refused(self) -> bool:
        """Return whether the default policy refuses what this row describes."""
        return self.risk in REFUSED or self.bound is None


# Lines of evidence, and those with the names that it is for.
_NAMES: Final = r"((?:#.*\n)*)((?:[^#].*\n?)+)"


def row_of(operator: str) -> Row:
    """Return the most specific row for an operator, with or without its overload, or for a class.

    A class bound from C++ is named with or without ``__torch__.torch.classes.`` before it.
    There is always one: ``*`` stands for whatever no other row names.
    """
    name = operator.removeprefix(NATIVE_PREFIX)
    known = _index()
    pattern = name
    if pattern not in known and "::" in name:
        pattern = name.partition(".")[0]
    if pattern not in known:
        pattern = next(found for found in _beginnings() if name.startswith(found[:-1]))
    return _row(pattern)


@cache
def rows() -> tuple[Row, ...]:
    """Return the whole table, one row a pattern."""
    return tuple(map(_row, _index()))


@cache
def _row(pattern: str) -> Row:
    head, told = _index()[pattern]
    title, _, reason = head.removeprefix("[").partition("] ")
    risk = title.partition(": ")[2]
    evidence = " ".join(line[1:].strip() for line in told.splitlines())
    bound, _, shown = evidence.partition(": ")
    return Row(pattern, Risk(risk), reason, Bound(bound) if bound else None, shown)


@cache
def _index() -> dict[str, tuple[str, str]]:
    """Return the head and the lines of evidence of each pattern, not taken apart.

    Few processes need many rows.
    """
    found: dict[str, tuple[str, str]] = {}
    for paragraph in table_text("risks.txt").split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        beginnings = _beginnings_in(head)
        for evidence, names in re.findall(_NAMES, rest):
            told = head, evidence
            for beginning in beginnings:
                found.update(dict.fromkeys([beginning + name for name in names.split()], told))
    return found


def _beginnings_in(head: str) -> list[str]:
    """Return what the names of a paragraph begin with, one for each of its namespaces."""
    namespaces = head[1:].partition(": ")[0]
    return [""] if namespaces == "classes" else [f"{name}::" for name in namespaces.split()]


@cache
def _beginnings() -> tuple[str, ...]:
    """Return the patterns that are beginnings, the longest first."""
    return tuple(sorted((p for p in _index() if p.endswith("*")), key=len, reverse=True))
