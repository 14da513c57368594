"""Effects, costs and aliases of operators that their schemas do not tell, or tell wrongly.

Costs are the bytes that operators on strings, lists and dicts take, by their arguments, before they
run. Sizes are those of 64-bit CPython. Numbers that stand in no list are not counted.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tsarchive.ir.graph import CONSTANT, Node
from tsarchive.ir.schema import FunctionSchema

COMPUTING: Final = frozenset(
    {
        "prim::DictConstruct", "prim::GetAttr", "prim::ListConstruct", "prim::ListUnpack",
        "prim::TupleConstruct", "prim::TupleIndex", "prim::TupleSlice", "prim::TupleUnpack",
        "prim::Uninitialized", "prim::isinstance", "prim::unchecked_cast",
    }
)  # fmt: skip
"""Nodes beside operators and constants that do nothing but compute their results."""

OF_TORCH: Final = ("aten::", "prim::", "mkldnn::")
"""Namespaces of operators whose schemas tell what they write to; others may do so unsaid."""

WITH_EFFECTS: Final = frozenset(
    {
        "aten::_get_cpu_capability", "aten::backward", "aten::dist_backward",
        "aten::get_autocast_dtype", "aten::is_autocast_cpu_enabled", "aten::is_autocast_enabled",
        "aten::is_grad_enabled", "aten::manual_seed", "aten::save", "aten::set_grad_enabled",
        "aten::wait", "aten::warn", "prim::AddStatValue", "prim::BailoutTemplate", "prim::Enter",
        "prim::Exit", "prim::IgnoredPythonOp", "prim::Print", "prim::PythonOp",
        "prim::RaiseException", "prim::SetAttr", "prim::TimePoint", "prim::awaitable_wait",
        "prim::rpc_async", "prim::rpc_remote", "prim::rpc_sync",
    }
)  # fmt: skip
"""Operators that are kept though nothing uses their results: torch registers effects of them."""


WITH_STATISTICS: Final = frozenset({"aten::batch_norm", "aten::instance_norm"})
"""Operators that write to running statistics, which their schemas do not say."""

IS_TRAINING: Final = 5
"""The position of the argument of these that says whether they do."""

RUNNING_STATISTICS: Final = (3, 4)
"""The positions of the statistics of these."""

HIDDEN_EFFECTS: Final = frozenset({*WITH_STATISTICS, "aten::get_autocast_dtype", "aten::wait"})
"""Operators whose schemas tell of a result alone, and that do more."""

NEW_TENSORS: Final = frozenset(
    f"aten::{name}"
    for name in (
        "linear", "mm", "addmm", "add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar",
        "mul.Tensor", "rsub.Scalar", "neg", "cat", "sigmoid", "tanh", "relu", "batch_norm",
        "conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding",
        "_convolution", "_convolution.deprecated", "conv_transpose1d", "conv_transpose2d.input",
        "conv_transpose3d.input", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d",
    )
)  # fmt: skip
"""Operators that give new tensors and keep nothing of what they are given.

That a schema names no alias does not tell: dropout that does nothing gives what it is given.
"""

CUTTING: Final = frozenset(
    {
        "aten::chunk", "aten::unsafe_chunk", "aten::split.Tensor", "aten::split.sizes",
        "aten::split_with_sizes", "aten::unsafe_split.Tensor", "aten::unsafe_split_with_sizes",
    }
)  # fmt: skip
"""Operators that give parts of a tensor of which no two have an item in common."""

ASKING_SIZES: Final = frozenset(
    {"aten::dim", "aten::len.Tensor", "aten::numel", "aten::size", "aten::size.int"}
)
"""Operators that look at the sizes of a tensor alone."""

ASKING_TYPES: Final = frozenset({"prim::dtype", "aten::is_complex", "aten::is_floating_point"})
"""Operators that look at the type of the numbers in a tensor alone."""

COPIES_LISTS: Final = frozenset(
    {"aten::broadcast_tensors"}
    | {f"aten::{name}" for name in ("cat", "dstack", "hstack", "stack", "vstack")}
)
"""Operators whose list arguments do not escape into the result."""

GROWING: Final = frozenset(
    {
        "aten::center", "aten::expandtabs", "aten::factorial", "aten::ljust", "aten::replace",
        "aten::rjust", "aten::zfill", "prim::rangelist",
    }
)  # fmt: skip
"""Operators without tensors whose results may be much larger than their arguments."""

SCALAR_OVERLOADS: Final[Mapping[str, str]] = {
    f"aten::{name}.Tensor": f"aten::{name}.Scalar" for name in ("add", "sub", "mul", "div")
}
"""Operators whose second operand, when a constant without dimensions, acts as a number."""


def schema_may_write(schema: FunctionSchema) -> bool:
    """Return whether operators of a schema may write to what they are given."""
    if any([argument.is_write for argument in schema.arguments]):
        return True
    return not schema.name.startswith(OF_TORCH)


def operator_may_write(node: Node) -> bool:
    """Return whether a node, which is an operator, may write to what it is given."""
    if node.kind in WITH_STATISTICS:
        return node.inputs[IS_TRAINING].constant is not False
    return node.schema is not None and schema_may_write(node.schema)


def may_write(node: Node) -> bool:
    """Return whether a node may write to what it is given, or nobody knows.

    Those in its blocks do not count.
    """
    if node.schema is not None:
        return operator_may_write(node)
    return not (node.kind in COMPUTING or node.kind == CONSTANT or node.blocks)


def is_pure(node: Node) -> bool:
    """Return whether a node does nothing beside computing its results."""
    if node.has_effects or node.kind in WITH_EFFECTS:
        return False
    if node.schema is None:
        return node.kind in COMPUTING or node.kind == CONSTANT
    if node.kind in HIDDEN_EFFECTS and node.kind not in WITH_STATISTICS:
        return False
    return bool(node.schema.returns) and not operator_may_write(node)


Cost = Callable[..., int]

POINTER: Final = 8
_HEADER: Final = 56
NUMBER: Final = 32  # an int or a float
_ITEM: Final = POINTER + NUMBER
_ENTRY: Final = 104  # of a dict
_PIECE: Final = _HEADER + POINTER  # a string in a list
_WIDEST: Final = 4
_OBJECT: Final = 400
_OMITTED: Final = (1 << 63) - 1  # stands for a bound of a slice that is left out
_TURN: Final = 128  # stands for a turn of a loop in Python, in bytes read


def size_of_made(node: Node) -> int:
    """Return the bytes of what a node makes by itself, without an operator."""
    if node.kind == "prim::CreateObject":
        return _OBJECT
    each = _PER_INPUT.get(node.kind)
    return 0 if each is None else _HEADER + each * len(node.inputs)


_PER_INPUT: Mapping[str, int] = {
    "prim::ListConstruct": POINTER,
    "prim::TupleConstruct": POINTER,
    "prim::DictConstruct": _ENTRY // 2,
    "prim::fork": _HEADER,
    "prim::awaitable": _HEADER,
}


def size_of_text(*texts: str) -> int:
    """Return the bytes of the text made of these; one character beyond ASCII widens them all."""
    length = sum(map(len, texts))
    return length if all(text.isascii() for text in texts) else length * _WIDEST


def _replaced(text: str, old: str, new: str, maximum: int) -> int:
    found = text.count(old) if old else maximum
    count = found if maximum < 0 else min(found, maximum)
    return size_of_text(text) + size_of_text(new) * max(count, 0)


def _pieces(text: str, separator: str | None, _maximum: int = -1) -> int:
    count = len(text) if separator is None else text.count(separator) if separator else 0
    return size_of_text(text) + _PIECE * (count + 1)


def _items(*values: Any) -> int:
    return _HEADER + POINTER * sum(map(len, values))


def _repeated(values: Any, count: int) -> int:
    return _HEADER + POINTER * len(values) * max(count, 0)


def _sliced(values: Any, start: int | None, end: int | None, step: int) -> int:
    if step <= 0:
        return 0  # refused by the operator
    first, last = (None if bound == _OMITTED else bound for bound in (start, end))
    return _HEADER + POINTER * len(range(*slice(first, last, step).indices(len(values))))


def _entries(*dicts: Any) -> int:
    return _HEADER + _ENTRY * len(dicts[-1])


def _of_nested(data: Any, **_options: Any) -> int:
    """A tensor of nested lists whose lengths are those of the first at each depth."""
    count = 1
    while isinstance(data, list):
        count *= len(data)
        data = data[0] if data else None
    return POINTER * count


def _constant(size: int) -> Cost:
    return lambda *_: size


_KEYS = ("str", "int", "float", "bool", "complex", "Tensor")


def _rows() -> Iterator[tuple[str, Cost]]:
    for name in (
        "capitalize", "lower", "swapcase", "title", "upper", "lstrip", "rstrip", "strip",
    ):  # fmt: skip
        yield f"aten::{name}", lambda text, *_: size_of_text(text)
    for name in ("ljust", "rjust", "center", "zfill"):
        yield f"aten::{name}", lambda text, width, *_: max(size_of_text(text), width)
    for name in ("partition", "rpartition"):
        yield f"aten::{name}", lambda text, *_: size_of_text(text) + 3 * _PIECE
    for kind in ("int", "float", "Tensor", "bool", "str", "any"):
        yield f"aten::sorted.{kind}", _items
    for key in _KEYS:
        yield f"aten::keys.{key}", _items
        yield f"aten::values.{key}", _items
        yield f"aten::items.{key}", lambda table: _HEADER + (_HEADER + 3 * POINTER) * len(table)
        for name in ("copy.Dict_", "dict.Dict_", "dict.", "update."):
            yield f"aten::{name}{key}", _entries
        yield f"aten::_set_item.{key}", _constant(_ENTRY)
        yield f"aten::setdefault.{key}", _constant(_ENTRY)


MADE: Mapping[str, Cost] = {
    "aten::add.str": lambda a, b: size_of_text(a, b),
    "aten::join": lambda s, values: size_of_text(s, *values) + size_of_text(s) * len(values),
    "aten::slice.str": lambda text, *_: size_of_text(text),
    "aten::expandtabs": lambda text, n: size_of_text(text) + text.count("\t") * max(n, 0),
    "aten::replace": _replaced,
    "aten::split.str": _pieces,
    "aten::rsplit": _pieces,
    "aten::splitlines": lambda text, _: size_of_text(text) + _PIECE * (len(text) + 1),
    "aten::list": lambda text: _items(text),
    "aten::list.t": _items,
    "aten::copy.t": _items,
    "aten::add.t": _items,
    "aten::add_.t": lambda _, others: POINTER * len(others),
    "aten::extend.t": lambda _, others: POINTER * len(others),
    "aten::append.t": _constant(_ITEM),
    "aten::insert.t": _constant(_ITEM),
    "aten::slice.t": _sliced,
    "aten::mul.left_t": _repeated,
    "aten::mul.right_": lambda count, values: _repeated(values, count),
    "aten::mul_.t": lambda values, count: _repeated(values, count - 1),
    "prim::rangelist": lambda count: _HEADER + _ITEM * max(count, 0),
    "prim::tolist": lambda tensor, *_: _HEADER + _ITEM * tensor.numel(),
    "prim::NumToTensor.Scalar": _constant(NUMBER),
    "prim::NumToTensor.bool": _constant(NUMBER),
    "aten::tensor": _of_nested,
    "aten::as_tensor.list": _of_nested,
    **dict(_rows()),
}
"""Bytes of the result of native operators, or of what they add to a list or dict."""


def _reading(*arguments: Any, **_: Any) -> int:
    """Bytes of the strings, lists and dicts among the arguments."""
    return sum(
        len(value) * (1 if isinstance(value, str) else POINTER)
        for value in arguments
        if isinstance(value, (str, list, dict))
    )


def _searches() -> Iterator[str]:
    for kind in ("int", "float", "bool", "Tensor", "str"):
        yield from (f"aten::index.list_{kind}", f"aten::remove.{kind}", f"aten::count.{kind}")
        yield from (f"aten::eq.{kind}_list", f"aten::ne.{kind}_list")
        yield from (f"aten::__contains__.{kind}_list", f"aten::sort.{kind}")
        yield from (f"aten::all.{kind}", f"aten::any.{kind}", f"aten::sum.{kind}")
        yield from (f"prim::{name}.self_{kind}" for name in ("min", "max"))
        yield from (f"prim::{name}.{kind}_list" for name in ("min", "max"))


_READERS = (
    *_searches(), "aten::sort.any", "aten::sum.complex", "aten::reverse.t",
    "aten::__contains__.builtin_str", "aten::__getitem__.str", "prim::StringIndex",
    "aten::len.str", "aten::Int.str", "aten::Float.str", "aten::ord",
    "aten::count", "aten::find", "aten::rfind", "aten::index.str", "aten::rindex",
    "aten::startswith", "aten::endswith",
    "aten::isalnum", "aten::isalpha", "aten::isdecimal", "aten::isdigit", "aten::isidentifier",
    "aten::islower", "aten::isnumeric", "aten::isprintable", "aten::isspace", "aten::istitle",
    "aten::isupper",
    "aten::eq.str", "aten::ne.str", "aten::lt.str", "aten::le.str", "aten::gt.str",
    "aten::ge.str",
)  # fmt: skip

READ: Mapping[str, Cost] = {
    **dict.fromkeys(_READERS, _reading),
    "aten::factorial.int": lambda n: _TURN * max(ctypes.c_int32(n & 0xFFFFFFFF).value, 0),
}
"""Bytes that native operators go through which make nothing of that size."""

SHOWN = frozenset(
    {"aten::str", "aten::format", "aten::percentFormat", "prim::Print", "aten::hash.generic"}
)
"""Operators that go through all that their arguments hold, at any depth."""
