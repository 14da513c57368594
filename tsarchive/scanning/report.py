"""What an audit gives back: findings, and an inventory of what the file holds and can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tsarchive.describing.tensors import TensorTotals
from tsarchive.findings import Finding, is_fine
from tsarchive.operators.risks import Risk


class When(Enum):
    """What makes code of an archive run."""

    LOAD = "load"
    """Loading the file: ``__setstate__`` of a class whose objects are pickled."""
    HOOK = "hook"
    """Calling a module that has a hook, whatever its ``forward`` says."""
    CALL = "call"
    """A call of ``forward`` or of any other method."""
    NEVER = "never"
    """Nothing: no object of the file leads to it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line (1-based) of a code record, and the function that it is in.

    ``line`` is None for bytecode. ``files`` are the file names that an operator on files is
    given: literal text, with ``{...}`` where a part is computed.
    """

    record: str
    line: int | None
    function: str
    when: tuple[When, ...]
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """An operator (``aten::save``) that the code names, with the places that do, a thousand of them
    at most.

    ``is_certain`` is False where it is known by the name of a method alone, and a method of a
    class of the archive may be meant.
    """

    operator: str
    risk: Risk
    reason: str
    places: tuple[Place, ...]
    is_certain: bool = True

    @property
    def when(self) -> tuple[When, ...]:
        """When it can run; only ``NEVER`` when nothing leads to it."""
        found = {when for place in self.places for when in place.when}
        return tuple(when for when in When if when in found)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A function that runs without being called by other code of the archive."""

    when: When
    function: str


@dataclass(frozen=True, slots=True)
class PickledName:
    """A global (``torch._utils._rebuild_tensor_v2``) that a pickle names.

    ``is_called`` tells whether the pickle also calls it; ``reason`` is why it is harmless, None
    when it is not among the names that are.
    """

    record: str | None
    name: str
    is_called: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Payload:
    """Native code or another program in the file; ``format`` says of which kind."""

    record: str | None
    format: str
    size: int


@dataclass(slots=True)
class Group:
    """Records of one kind: how many, their bytes, and the bytes they take in the file."""

    records: int = 0
    bytes: int = 0
    stored_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a file can do, and when.

    ``kind`` is that of :attr:`tsarchive.Archive.kind` or, of files that are no zip archive,
    ``pickle``, ``torch.save (legacy)``, ``tar``, ``npy`` or ``unknown``. ``groups`` gives the
    sizes of records by what they hold; ``tensors`` counts what :attr:`tsarchive.Archive.tensors`
    lists, and is None where it lists none. ``classes`` are the torchbind classes that are named.
    """

    kind: str
    size: int
    findings: tuple[Finding, ...]
    operators: tuple[OperatorUse, ...] = ()
    entry_points: tuple[EntryPoint, ...] = ()
    pickled_names: tuple[PickledName, ...] = ()
    classes: tuple[str, ...] = ()
    payloads: tuple[Payload, ...] = ()
    groups: Mapping[str, Group] = field(default_factory=dict)
    tensors: TensorTotals | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found above ``Severity.INFO``."""
        return is_fine(self.findings)
