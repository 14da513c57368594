"""A program: TorchScript source with inputs, and the module it describes."""

from __future__ import annotations

import hashlib
import linecache
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, repr=False)
class Program:
    """Source that defines ``Model``, a subclass of ``torch.nn.Module``.

    ``inputs`` holds the arguments of ``forward``, one tuple for each call; the calls go to one
    instance in this order, for a model may change its state.
    """

    source: str
    inputs: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        """The name of the Python module that the source is; the same for the same source."""
        return f"program_{hashlib.sha256(self.source.encode()).hexdigest()[:8]}"

    def namespace(self) -> dict[str, Any]:
        """Runs the source, once; its functions and classes by name.

        torch.jit asks ``inspect`` for the source of what it compiles, so the source is known
        under the name of a file from then on.
        """
        if self.name in sys.modules:
            return sys.modules[self.name].__dict__
        module = types.ModuleType(self.name)
        module.__file__ = f"<{self.name}>.py"
        lines = self.source.splitlines(keepends=True)
        linecache.cache[module.__file__] = (len(self.source), None, lines, module.__file__)
        sys.modules[self.name] = module
        exec(compile(self.source, module.__file__, "exec", dont_inherit=True), module.__dict__)
        return module.__dict__

    def module(self) -> torch.nn.Module:
        """A new instance of ``Model``, for ``torch.jit.script`` or ``torch.jit.trace``."""
        made: torch.nn.Module = self.namespace()["Model"]()
        return made

    def __repr__(self) -> str:
        return f"Program({self.inputs}):\n{self.source}"
