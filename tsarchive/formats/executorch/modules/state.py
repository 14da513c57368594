"""Integrity of the buffers of a program's module.

Methods identify a buffer that they change by its memory, and others by name and type. Values can be
copied into them; replacing a buffer by another tensor raises an error instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any

import torch

from tsarchive.errors import CallError
from tsarchive.formats.executorch.values import Tensor

from .layout import Layout
from .memory import Memory


def buffer_checker(layout: Layout) -> Callable[[Memory, Mapping[str, Any]], None]:
    """Return a check of a module's buffers before a call, which is cheap while nothing changed.

    The check raises CallError for a buffer that the program was not made for.
    """

    def check(memory: Memory, buffers: Mapping[str, Any]) -> None:
        known = memory.checked
        if len(known) != len(buffers) or not all(map(is_, buffers.values(), known)):
            for problem in _problems(layout, memory, buffers):
                raise problem
            memory.checked = list(buffers.values())

    return check


def _problems(layout: Layout, memory: Memory, buffers: Mapping[str, Any]) -> Iterator[CallError]:
    for name, content in layout.buffers.items():
        found = buffers.get(name)
        made_for = _shown(content if isinstance(content, Tensor) else memory.tensors[content])
        if not isinstance(found, torch.Tensor) or _shown(found) != made_for:
            is_now = _shown(found) if isinstance(found, torch.Tensor) else type(found).__name__
            yield CallError(
                f"the buffer {name!r} is {is_now}; the program was made for {made_for}",
                hint="A program runs in the types and sizes that it was exported with",
            )
        elif isinstance(content, int) and found is not memory.tensors[content]:
            yield CallError(
                f"the buffer {name!r} is another tensor than the one in the program's memory",
                hint="Copy values into it: with copy_(), or by load_state_dict()",
            )


def _shown(tensor: Tensor | torch.Tensor) -> str:
    if isinstance(tensor, Tensor):
        return f"{tensor.dtype}{list(tensor.sizes)} on cpu"
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype}{list(tensor.shape)} on {tensor.device.type}"


def load_from_state_dict(
    module: Any,
    state_dict: Mapping[str, Any],
    prefix: str,
    local_metadata: Mapping[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Implement ``_load_from_state_dict``; values are copied even with ``assign=True``.

    torch takes a name with dots for that of a submodule; here it names a buffer.
    """
    metadata = {**local_metadata, "assign_to_params_buffers": False}
    own: list[str] = []
    torch.nn.Module._load_from_state_dict(
        module, state_dict, prefix, metadata, strict, missing_keys, own, error_msgs
    )
    names = {prefix + name for name in module._buffers}
    unexpected_keys += [key for key in own if key not in names]
