"""How natives report a fault of the running program.

torch raises RuntimeError for all of them. The class named here is the one that the same fault
has in Python, so that a caller can tell an index from a key without reading the text.
"""

from __future__ import annotations

from tsarchive.errors import ScriptError

__all__ = [
    "assertion_fault",
    "division_fault",
    "index_fault",
    "key_fault",
    "type_fault",
    "value_fault",
]


def assertion_fault(message: str) -> ScriptError:
    return ScriptError(message, exception="builtins.AssertionError")


def index_fault(message: str) -> ScriptError:
    return ScriptError(message, exception="builtins.IndexError")


def key_fault(message: str) -> ScriptError:
    return ScriptError(message, exception="builtins.KeyError")


def value_fault(message: str) -> ScriptError:
    return ScriptError(message, exception="builtins.ValueError")


def type_fault(message: str) -> ScriptError:
    return ScriptError(message, exception="builtins.TypeError")


def division_fault(message: str) -> ScriptError:
    return ScriptError(message, exception="builtins.ZeroDivisionError")
