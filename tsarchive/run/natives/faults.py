"""How natives report a fault of the running program.

torch raises RuntimeError for all of them. The class named here is the one that the same fault
has in Python, so that a caller can tell an index from a key without reading the text.
"""

from __future__ import annotations

from tsarchive.errors import ScriptError


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


def wrong_kind(value: object, wanted: type) -> ScriptError:
    """For a value that code takes for one of another kind, which ``unchecked_cast`` can do.

    To be raised before the value is asked for an attribute: an object of the archive has attributes
    of any name, and those of Python's objects are no values of TorchScript.
    """
    return type_fault(f"expected a {wanted.__name__}, but found a {type(value).__name__}")


def division_fault(message: str) -> ScriptError:
    return ScriptError(message, exception="builtins.ZeroDivisionError")
