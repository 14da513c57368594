"""Printing, warning, raising, and the operators that say where the code runs."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch

from tsarchive.errors import ScriptError
from tsarchive.run.natives.bytestrings import encode
from tsarchive.run.natives.faults import assertion_fault, wrong_kind
from tsarchive.run.natives.formatting import format_value
from tsarchive.run.natives.table import native

__all__: list[str] = []

_ASSERTION = "AssertionError: "


@native("prim::Print")
def print_values(*values: Any) -> None:
    """Write the values to standard output, joined by spaces, with a line end.

    Bytes that are not UTF-8 become U+FFFD.
    """
    text = " ".join(map(format_value, values))
    sys.stdout.write(encode(text).decode("utf-8", "replace") + "\n")


@native("aten::warn")
def warn(message: str, stacklevel: int) -> None:
    """Issue a UserWarning at the calling line of the generated code.

    Python's default filter shows it once per line, as torch does. torch does not use
    ``stacklevel``, nor does this.
    """
    del stacklevel
    if not isinstance(message, str):
        raise wrong_kind(message, str)
    warnings.warn(message, UserWarning, stacklevel=2)


@native("prim::RaiseException")
def raise_exception(message: str, class_name: str | None) -> None:
    """Raise ScriptError; ``class_name`` is the qualified name of the class that was raised.

    An ``assert`` has no class; its name stands before the message.
    """
    if not isinstance(message, str):
        raise wrong_kind(message, str)
    if class_name is None and message.startswith(_ASSERTION):
        raise assertion_fault(message.removeprefix(_ASSERTION))
    raise ScriptError(message, exception=class_name or "RuntimeError")


@native("prim::IgnoredPythonOp")
def call_ignored_function(*_: Any) -> None:
    """Stand in for a Python function that was left out when the archive was saved."""
    raise ScriptError(
        "This Python function is annotated to be ignored and cannot be and has not been included "
        "in the exported binary, meaning that it cannot be executed now. Make sure that ignored "
        "operations are never executed after import"
    )


@native("aten::is_scripting")
def is_scripting() -> bool:
    return True


@native("aten::_get_tracing_state", "aten::has_torch_function")
def never(*_: Any) -> bool:
    return False


native("aten::is_grad_enabled")(torch.is_grad_enabled)


@native("aten::set_grad_enabled")
def set_grad_enabled(value: bool) -> None:
    torch._C._set_grad_enabled(value)
