"""The methods of a program: values, chains of instructions, operators, delegates, arenas."""

from __future__ import annotations

from dataclasses import dataclass

from .instructions import Instruction
from .values import Value


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator.

    ``name`` includes its namespace (``aten::add``), ``overload`` has no dot and may be empty.
    """

    name: str
    overload: str

    @property
    def qualified_name(self) -> str:
        """The name by which the runtime looks it up: ``aten::add.out``."""
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(frozen=True, slots=True)
class Delegate:
    """A subgraph for a backend. Its bytes are a segment, or in the tables if ``is_inline``."""

    backend: str
    is_inline: bool
    index: int
    options: tuple[tuple[str, memoryview], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of user source. ``line`` is 1-based, ``context`` its text."""

    file: str
    line: int
    function: str
    context: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Instructions, run from the first; ``frames`` has the stack of each, or is empty."""

    instructions: tuple[Instruction, ...]
    frames: tuple[tuple[Frame, ...], ...]


@dataclass(frozen=True, slots=True)
class Container:
    """The nesting of arguments and results: in ExecuTorch's own notation, or in torch's JSON."""

    inputs: str
    outputs: str


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    ``inputs`` and ``outputs`` index ``values``; ``arenas`` are sizes in bytes, the first a
    placeholder; ``arena_devices`` device type and index of some of them.
    """

    name: str
    container: Container | None
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[Chain, ...]
    operators: tuple[Operator, ...]
    delegates: tuple[Delegate, ...]
    arenas: tuple[int, ...]
    arena_devices: tuple[tuple[int, int, int], ...] = ()
