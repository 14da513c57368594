"""What an operator can do beside computing, and how the table says it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

__all__ = ["REFUSED", "Bound", "Group", "Risk", "Row"]


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

    @property
    def is_refused(self) -> bool:
        """Whether the default policy refuses it."""
        return self in REFUSED


REFUSED: Final = frozenset(
    {
        Risk.GLOBAL_STATE, Risk.MEMORY, Risk.FILES, Risk.PROCESSES, Risk.NETWORK,
        Risk.NATIVE_CODE, Risk.FOREIGN, Risk.UNKNOWN,
    }
)  # fmt: skip


class Bound(Enum):
    """What keeps an operator within its tensors, whatever arguments it is given."""

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
        """Whether the default policy refuses what this row describes."""
        return self.risk.is_refused or self.bound is None


class Group(NamedTuple):
    """Rows that share risk and reason: for each of ``namespaces``, each of ``names``.

    Names stand below their evidence, which stands behind ``#`` as ``bound: evidence``.
    """

    namespaces: str
    risk: Risk
    reason: str
    names: str

    def rows(self) -> Iterator[Row]:
        beginnings = [f"{namespace}::" for namespace in self.namespaces.split()] or [""]
        for bound, evidence, names in self._sections():
            for beginning in beginnings:
                for name in names:
                    yield Row(beginning + name, self.risk, self.reason, bound, evidence)

    def _sections(self) -> Iterator[tuple[Bound | None, str, list[str]]]:
        head: list[str] = []
        names: list[str] = []
        for line in map(str.strip, self.names.splitlines()):
            if not line.startswith("#"):
                names += line.split()
                continue
            if names:
                yield *_evidence(head), names
                head, names = [], []
            head.append(line[1:].strip())
        yield *_evidence(head), names


def _evidence(head: list[str]) -> tuple[Bound | None, str]:
    bound, _, told = " ".join(head).partition(": ")
    return (Bound(bound) if bound else None), told
