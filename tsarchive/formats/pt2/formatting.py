"""Types and arguments of a program as Python-like text, for reading only.

``float32[s77, 4]`` is a tensor of that shape, ``int[s77 + 1]`` a number that depends on symbols.
Names that are not identifiers are shown as strings, so that no name looks like something else.
"""

from __future__ import annotations

from collections.abc import Callable
from keyword import iskeyword
from typing import Any

from tsarchive.errors import FormatError

from .schema import (
    DTYPES,
    Argument,
    Graph,
    Layout,
    OptionalTensorArgument,
    Tagged,
    TensorMeta,
    device_name,
)
from .symbols import parse

UNKNOWN = "?"


def is_name(text: str) -> bool:
    return text.isidentifier() and not iskeyword(text)


def name(text: str) -> str:
    """Return an identifier as it is, other names as string literals."""
    return text if is_name(text) else ascii(text)


def target(text: str) -> str:
    """Return a dotted operator name as it is, other names as string literals."""
    return text if all(map(is_name, text.split("."))) else ascii(text)


def one_line(text: str) -> str:
    """Escape text for a comment: whatever would end the line or act on a terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def expression(text: str) -> str:
    """Return an expression over symbols in infix form; as it is where it does not parse."""
    try:
        return str(parse(text))
    except FormatError:
        return ascii(text)


def symbolic(value: Tagged) -> str:
    """Return a symbolic size, number or truth value: a literal, or an expression."""
    return expression(value.value.expr_str) if value.tag == "as_expr" else repr(value.value)


def type_of_tensor(meta: TensorMeta) -> str:
    """Return ``float32[s77, 4]``, followed by an unusual device and layout."""
    dtype = DTYPES[meta.dtype].dtype if meta.dtype in DTYPES else UNKNOWN
    parts = [", ".join(map(symbolic, meta.sizes)) or "()"]
    if (device := device_name(meta.device)) != "cpu":
        parts.append(ascii(device))
    if meta.layout != Layout.STRIDED:
        parts.append(ascii(meta.layout.name.lower()))
    return f"{dtype}[{', '.join(parts)}]"


def type_of(value: Argument, graph: Graph) -> str:
    """Return the type of an input or output of a graph."""
    show = _TYPES.get(value.tag)
    return _PLAIN_TYPES.get(value.tag, UNKNOWN) if show is None else show(value.value, graph)


def _tensor_type(tensor: Any, graph: Graph) -> str:
    meta = graph.tensor_values.get(tensor.name)
    return UNKNOWN if meta is None else type_of_tensor(meta)


def _optional_type(tensor: OptionalTensorArgument, graph: Graph) -> str:
    return "None" if tensor.tag == "as_none" else _tensor_type(tensor.value, graph)


def _list_type(show: Callable[[Any, Graph], str]) -> Callable[[list[Any], Graph], str]:
    return lambda items, graph: f"list[{', '.join(show(item, graph) for item in items) or '()'}]"


def _symbol_type(kind: str, table: str) -> Callable[[Tagged, Graph], str]:
    """Return a function for the type of a number by its name in a table of the graph."""

    def show(value: Tagged, graph: Graph) -> str:
        if value.tag != "as_name":
            return kind
        found = getattr(graph, table).get(value.value)
        return kind if found is None else f"{kind}[{symbolic(found)}]"

    return show


_ITEM_TYPES: dict[str, Callable[[Any, Graph], str]] = {
    "as_tensor": _tensor_type,
    "as_optional_tensor": _optional_type,
    "as_sym_int": _symbol_type("int", "sym_int_values"),
    "as_sym_float": _symbol_type("float", "sym_float_values"),
    "as_sym_bool": _symbol_type("bool", "sym_bool_values"),
}
_TYPES: dict[str, Callable[[Any, Graph], str]] = {
    **_ITEM_TYPES,
    **{f"{tag}s": _list_type(show) for tag, show in _ITEM_TYPES.items()},
    "as_nested_tensors": _list_type(_list_type(_tensor_type)),
    "as_custom_obj": lambda value, graph: target(value.class_fqn),
}
_PLAIN_TYPES = {
    "as_none": "None", "as_int": "int", "as_float": "float", "as_bool": "bool",
    "as_string": "str", "as_complex": "complex", "as_ints": "list[int]",
    "as_floats": "list[float]", "as_bools": "list[bool]", "as_strings": "list[str]",
    "as_int_lists": "list[list[int]]", "as_float_lists": "list[list[float]]",
    "as_device": "torch.device", "as_scalar_type": "torch.dtype", "as_layout": "torch.layout",
    "as_memory_format": "torch.memory_format",
}  # fmt: skip


def argument(value: Argument) -> str:
    """Return a literal, or the names of values."""
    show = _ARGUMENTS.get(value.tag)
    return _literal(value.value) if show is None else show(value.value)


def parameter(value: Argument, graph: Graph) -> str:
    """Return an input of a graph as a parameter: ``x: float32[2]``, ``_: Literal[3]``."""
    if value.name is not None:
        return f"{argument(value)}: {type_of(value, graph)}"
    return f"_: Literal[{argument(value)}]"


def _literal(value: Any) -> str:
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return ascii(value)


def _named(value: Any) -> str:
    return name(value.name)


def _tagged(value: Tagged) -> str:
    """Return a name, a tensor's name, a literal or None."""
    match value.tag:
        case "as_name":
            return name(value.value)
        case "as_tensor":
            return _named(value.value)
        case "as_none":
            return "None"
    return _literal(value.value)


def _list_of(show: Callable[[Any], str]) -> Callable[[list[Any]], str]:
    return lambda items: f"[{', '.join(map(show, items))}]"


_ITEMS: dict[str, Callable[[Any], str]] = {
    "as_tensor": _named,
    **dict.fromkeys(("as_optional_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"), _tagged),
}
_ARGUMENTS: dict[str, Callable[[Any], str]] = {
    **_ITEMS,
    **{f"{tag}s": _list_of(show) for tag, show in _ITEMS.items()},
    "as_none": lambda value: "None",
    "as_nested_tensors": _list_of(_list_of(_named)),
    "as_scalar_type": lambda v: f"torch.{DTYPES[v].dtype}" if v in DTYPES else UNKNOWN,
    "as_layout": lambda value: f"torch.{value.name.lower()}",
    "as_memory_format": lambda value: f"torch.{value.name.lower()}",
    "as_device": lambda value: f"torch.device({device_name(value)!a})",
    "as_graph": _named,
    "as_custom_obj": _named,
    "as_operator": target,
    "as_complex": lambda value: f"complex({_literal(value.real)}, {_literal(value.imag)})",
    "as_string_to_argument": lambda value: (
        "{" + ", ".join(f"{key!a}: {argument(item)}" for key, item in value.items()) + "}"
    ),
}
