"""A generated program: TorchScript source, inputs, and the resulting module."""

from __future__ import annotations

import hashlib
import itertools
import linecache
import sys
import types
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, repr=False)
class Program:
    """Source that defines ``Model``, a subclass of ``torch.nn.Module``.

    ``inputs`` holds the arguments of ``forward``, one tuple for each call; the calls go to one
    instance in this order, since a model may change its state.
    """

    source: str
    inputs: tuple[tuple[Any, ...], ...]

    def namespace(self) -> dict[str, Any]:
        """Run the source as a new Python module; return its globals by name.

        torch.jit asks ``inspect`` for the source of what it compiles, so the module and its source
        stay registered with Python.
        """
        module = types.ModuleType(self._new_name())
        module.__file__ = f"<{module.__name__}>.py"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # such as `1 is None`
            code = compile(self.source, module.__file__, "exec", dont_inherit=True)
        exec(code, module.__dict__)
        lines = self.source.splitlines(keepends=True)
        linecache.cache[module.__file__] = (len(self.source), None, lines, module.__file__)
        sys.modules[module.__name__] = module
        return module.__dict__

    def _new_name(self) -> str:
        """Return a module name, at first determined by the source alone, as archives then are."""
        name = f"program_{hashlib.sha256(self.source.encode()).hexdigest()[:8]}"
        # torch caches compiled classes by name, even failed ones: no name is used twice.
        names = itertools.chain((name,), (f"{name}_{count}" for count in itertools.count(2)))
        return next(free for free in names if free not in sys.modules)

    def module(self) -> torch.nn.Module:
        """Return a new instance of ``Model``, for ``torch.jit.script`` or ``torch.jit.trace``."""
        made: torch.nn.Module = self.namespace()["Model"]()
        return made

    def __repr__(self) -> str:
        return f"Program({self.inputs}):\n{self.source}"
