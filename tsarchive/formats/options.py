"""What loading, saving and converting are asked for, beside the file or the module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from tsarchive.policy import Guard


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What ``load`` was asked for.

    ``model`` is one of several in an archive; ``data`` is what a program reads from files beside
    it; ``tensors_on`` is where tensors of TorchScript go if not to the ``device`` of its code.
    """

    device: torch.device | None
    guard: Guard
    model: str | None = None
    data: Any = None
    tensors_on: torch.device | None = None


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """What ``save`` was asked for. ``files`` are extra files by name."""

    files: Mapping[str, bytes]
    debug: bool = True
    canonical: bool = False
    source_paths: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """The arguments of one call, and which sizes stay open where it is traced."""

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None

    @property
    def is_given(self) -> bool:
        return self.args is not None or self.kwargs is not None
