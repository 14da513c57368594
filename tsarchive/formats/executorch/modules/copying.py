"""Copying and pickling of programs, each copy with memory of its own.

A pickle holds the bytes of the arenas and the constants; the planned tensors are created again.
"""

from __future__ import annotations

from typing import Any

from tsarchive.run.copying import ClassReference, deep_copy

from .calling_convention import MEMORY
from .memory import Memory


def deepcopy_program(module: Any, memo: dict[int, Any]) -> Any:
    """Implement ``__deepcopy__`` of a program."""
    memory: Memory = module.__dict__[MEMORY]
    with memory.lock:
        memo[id(memory)] = memory.copied(memo)
        return deep_copy(module, memo)


def reduce_program(module: Any, _protocol: int) -> Any:
    """Implement ``__reduce_ex__`` of a program."""
    memory: Memory = module.__dict__[MEMORY]
    with memory.lock:
        planned = {id(tensor) for tensor in memory.tensors}
        buffers = {n: t for n, t in module._buffers.items() if id(t) not in planned}
        class_: Any = type(module)
        state = memory.contents(), buffers, class_.tsarchive_importer.kept(module)
        return _revived, (class_.tsarchive_reference, module.training, *state)


def _revived(
    reference: ClassReference | type,
    training: bool,
    contents: list[bytes],
    buffers: dict[str, Any],
    kept: dict[str, Any],
) -> Any:
    class_: Any = reference.class_ if isinstance(reference, ClassReference) else reference
    importer = class_.tsarchive_importer
    memory = Memory(importer.layout)
    memory.fill(contents)
    found = {
        name: memory.tensors[content] if isinstance(content, int) else None
        for name, content in importer.layout.buffers.items()
    }
    made = importer.built(memory, {**found, **buffers}, kept)
    made.training = training
    return made
