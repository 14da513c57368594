"""What an operator can do beside computing, and how the table says it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

__all__ = ["NATIVE_PREFIX", "REFUSED", "Group", "Risk", "Row"]

NATIVE_PREFIX: Final = "__torch__.torch.classes."


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


class Row(NamedTuple):
    """A decision of the table.

    ``pattern`` is a qualified name (``aten::save``), one with an overload
    (``aten::manual_seed.generator``), a class (``quantized.LinearPackedParamsBase``), or the
    beginning of such names with ``*`` behind it; ``reason`` says what they do.
    """

    pattern: str
    risk: Risk
    reason: str

    @property
    def is_refused(self) -> bool:
        """Whether the default policy refuses what this row describes."""
        return self.risk.is_refused


class Group(NamedTuple):
    """Rows that share risk and reason: for each of ``namespaces``, each of ``names``."""

    namespaces: str
    risk: Risk
    reason: str
    names: str

    def patterns(self) -> Iterator[str]:
        for beginning in [f"{namespace}::" for namespace in self.namespaces.split()] or [""]:
            for name in self.names.split():
                yield beginning + name

    def row(self, pattern: str) -> Row:
        return Row(pattern, self.risk, self.reason)
