"""The instructions of a method. Numbers index its values, operators and delegates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Call an operator. ``args`` are those of its schema, outputs included, then its results."""

    operator: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Run a program of a backend."""

    delegate: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Make a value the same as another; no bytes are copied."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class JumpFalse:
    """Jump to an instruction of the chain if a bool, or any element of a bool tensor, is false."""

    condition: int
    destination: int


@dataclass(frozen=True, slots=True)
class Free:
    """Free the data of a tensor."""

    value: int


Instruction: TypeAlias = KernelCall | DelegateCall | Move | JumpFalse | Free
