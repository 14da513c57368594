"""Layers through which code that is compiled for an export calls its operators.

A layer is called with the schema of an operator, the function that runs it, and its arguments. The
first layer is asked first, and runs the operator by way of the others. Without layers, an operator
runs as it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.run.operators import called_by_tracers, unchecked

if TYPE_CHECKING:
    from tsarchive.ir.schema import FunctionSchema

Run = Callable[..., Any]
Layer = Callable[..., Any]
"""Called as ``layer(schema, run, *arguments, **keywords)``."""


class _Active(threading.local):
    """The layers of an export that this thread is making; None without one."""

    layers: tuple[Layer, ...] | None = None


_active = _Active()


@contextmanager
def exporting(*layers: Layer) -> Iterator[None]:
    """Let code of archives that this thread calls run operators through these layers."""
    before, _active.layers = _active.layers, layers
    try:
        yield
    finally:
        _active.layers = before


@called_by_tracers
def is_exporting() -> bool:
    """Return whether this thread calls operators through layers."""
    return _active.layers is not None


def exportable(schema: FunctionSchema) -> Run:
    """Return the function that runs an operator through the layers of the thread."""
    run = unchecked(schema)

    def call(*arguments: Any, **keywords: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return run(*arguments, **keywords)
        chosen = run
        for layer in reversed(_active.layers or ()):
            chosen = partial(layer, schema, chosen)
        return chosen(*arguments, **keywords)

    return call
