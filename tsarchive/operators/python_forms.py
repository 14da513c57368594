"""Operators on numbers, strings, lists, dicts and tensors as Python syntax, by full name.

A readable form is for people: an expression of the arguments ``_0``, ``_1``, ... An operator has
one where Python gives what TorchScript gives for all values that a program meets;
:func:`tsarchive.decompile` tells for which others it does not.

An exact form replaces the native function of the same key in generated code, and does the same
with values of the declared types. With values of other types, which
``unchecked_cast`` can bring, it does no more than what the native does first: it names
attributes of tensors and devices alone, once their type is known.

Functions of Python that do what operators of ``aten`` do are listed last, where names and
signatures mislead. There operators are named without their namespace, unless an overload is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

Range = tuple[int, int]
"""The smallest and the largest value that an int may have."""

_INT64_MAX: Final = (1 << 63) - 1
_INT64_MIN: Final = -(1 << 63)
ANY_INT: Final[Range] = (_INT64_MIN, _INT64_MAX)
TURNS: Final[Range] = (0, _INT64_MAX - 1)
"""The number of a turn of a loop, counted from 0."""
_LENGTH: Final[Range] = (0, 1 << 48)  # more does not fit into memory
_HALF_RANGE: Final = 1 << 62
_BITS: Final = 64
_OPERAND: Final = re.compile(r"\b_(\d)\b")
_CALLED: Final = re.compile(r"\{([a-z]+)\}")

_NATIVE_KEYS: Final = ("str", "int", "bool")
_KEYS: Final = "str int bool float complex Tensor"
_NUMBERS: Final = "int float int_float float_int"
_COMPLEX: Final = "complex complex_int complex_float int_complex float_complex"
_SIGNS: Final = (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
_ARITHMETIC: Final = (("add", "+"), ("sub", "-"), ("mul", "*"))
_ATTRIBUTES: Final = (
    "data device grad is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_nested"
    " is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize name nbytes"
    " requires_grad"
)
"""Operators of ``prim`` on one tensor that are attributes in Python under the same name."""

# The braces of an operator, and of its form, stand for each of the words behind it.
_FAMILIES: Final = (
    *(
        (f"aten::{name}.{{}}", f"{_NUMBERS} Tensor Scalar", f"_0 {sign} _1")
        for name, sign in _SIGNS
    ),
    *((f"aten::{name}.{{}}", "bool device enum str", f"_0 {sign} _1") for name, sign in _SIGNS[:2]),
    *((f"aten::{name}.{{}}_list", "int bool str", f"_0 {sign} _1") for name, sign in _SIGNS[:2]),
    *((f"aten::{name}.{{}}", "str", f"_0 {sign} _1") for name, sign in _SIGNS[2:]),
    *((f"aten::{name}.{{}}", _NUMBERS, f"_0 {sign} _1") for name, sign in _ARITHMETIC),
    *((f"aten::{name}.{{}}", _COMPLEX, f"_0 {sign} _1") for name, sign in _ARITHMETIC),
    ("aten::mul.{}", "Tensor Scalar", "_0 * _1"),
    ("aten::div.{}", "Tensor Scalar", "_0 / _1"),
    ("aten::add.builtin_{}_Tensor", "float int complex", "_0 + _1"),
    ("aten::mul.builtin_{}_Tensor", "float int complex", "_0 * _1"),
    ("aten::pow.Tensor_{}", "Scalar Tensor", "_0 ** _1"),
    ("aten::__and__.{}", "bool int Tensor", "_0 & _1"),
    ("aten::__or__.{}", "bool int Tensor", "_0 | _1"),
    ("aten::__xor__.{}", "bool int Tensor", "_0 ^ _1"),
    ("aten::neg{}", ".int .float ", "-_0"),
    ("prim::abs.{}", "int float", "abs(_0)"),
    ("aten::Float.{}", "bool Tensor", "float(_0)"),
    ("aten::Int.{}", "bool float Tensor", "int(_0)"),
    ("aten::Bool.{}", "int float Tensor", "bool(_0)"),
    ("aten::{}", "hex oct bin", "{}(_0)"),
    ("aten::{}.float", "floor ceil isnan isinf isfinite", "math.{}(_0)"),
    ("aten::len.{}", "t any Tensor", "len(_0)"),
    ("aten::{}.t", "__getitem__ select", "_0[_1]"),
    ("aten::{}.t", "append extend pop", "_0.{}(_1)"),
    ("aten::{}.t", "reverse clear copy", "_0.{}()"),
    ("aten::__contains__.{}_list", "int str", "_1 in _0"),
    ("aten::sorted.{}", "int bool", "sorted(_0)"),
    ("aten::sort.{}", "int bool", "_0.sort(reverse=_1)"),
    ("aten::count.{}", "int bool str", "_0.count(_1)"),
    ("aten::index.list_{}", "int bool str", "_0.index(_1)"),
    ("aten::remove.{}", "int bool str", "_0.remove(_1)"),
    ("aten::all.{}", "int float bool", "all(_0)"),
    ("aten::any.{}", "int float bool str", "any(_0)"),
    ("prim::{}.self_int", "min max", "{}(_0)"),
    ("prim::{}.self_bool", "min max", "{}(_0)"),
    ("prim::{}.int", "min max", "{}(_0, _1)"),
    ("aten::len.Dict_{}", _KEYS, "len(_0)"),
    ("aten::keys.{}", _KEYS, "list(_0.keys())"),
    ("aten::values.{}", _KEYS, "list(_0.values())"),
    ("aten::items.{}", _KEYS, "list(_0.items())"),
    ("aten::__contains__.{}", _KEYS, "_1 in _0"),
    ("aten::__getitem__.Dict_{}", _KEYS, "_0[_1]"),
    ("aten::get.{}", _KEYS, "_0.get(_1)"),
    ("aten::get.default_{}", _KEYS, "_0.get(_1, _2)"),
    ("aten::setdefault.{}", _KEYS, "_0.setdefault(_1, _2)"),
    ("aten::pop.Dict_{}", _KEYS, "_0.pop(_1)"),
    ("aten::pop.Dict_default_{}", _KEYS, "_0.pop(_1, _2)"),
    ("aten::clear.{}", _KEYS, "_0.clear()"),
    ("aten::update.{}", _KEYS, "_0.update(_1)"),
    ("aten::copy.Dict_{}", _KEYS, "_0.copy()"),
    ("aten::dict.Dict_{}", _KEYS, "dict(_0)"),
    ("aten::dict.{}", _KEYS, "dict(_0)"),
    ("aten::{}.int", "size stride", "_0.{}(_1)"),
    (
        "aten::{}",
        "dim numel item element_size storage_offset is_complex is_floating_point",
        "_0.{}()",
    ),
    ("aten::device{}", ".builtin ", "torch.device(_0)"),
    ("prim::EnumValue.{}", "int float str", "_0.value"),
    ("prim::{}.builtin", "T H mT mH", "_0.{}"),
    ("prim::{}", _ATTRIBUTES, "_0.{}"),
)
_SINGLE: Final = {
    "aten::list.t": "list(_0)",
    "aten::add.t": "_0 + _1",
    "aten::insert.t": "_0.insert(_1, _2)",
    "prim::rangelist": "list(range(_0))",
    "aten::__not__": "not _0",
    "aten::floordiv.int": "_0 // _1",
    "aten::remainder.int": "_0 % _1",
    "aten::divmod.int": "divmod(_0, _1)",
    "aten::gcd.int": "math.gcd(_0, _1)",
    "aten::Complex.float_float": "complex(_0, _1)",
    "aten::add.str": "_0 + _1",
    "aten::join": "_0.join(_1)",
    "aten::Size": "_0",
    "aten::is_scripting": "True",
    "aten::_get_tracing_state": "False",
    "aten::is_grad_enabled": "torch.is_grad_enabled()",
    "aten::set_grad_enabled": "torch.set_grad_enabled(_0)",
    "aten::manual_seed": "torch.manual_seed(_0)",
    "prim::EnumName": "_0.name",
    "aten::wait": "_0.wait()",
    "prim::awaitable_wait": "_0.wait()",
    "prim::ndim.builtin": "_0.dim()",
    "aten::IntImplicit": "int(_0)",
    "aten::FloatImplicit": "float(_0)",
    "aten::ComplexImplicit": "complex(_0)",
    "aten::ScalarImplicit": "_0.item()",
    "aten::matmul": "_0 @ _1",
    "aten::numpy_T": "_0.T",
    "aten::matrix_H": "_0.H",
    "aten::mT": "_0.mT",
    "aten::mH": "_0.mH",
    "aten::bitwise_not": "~_0",
    "aten::device.with_index": "torch.device(_0, _1)",
    "prim::type": "_0.type",
    "prim::index": "_0.index",
}

READABLE_FORMS: Final[Mapping[str, str]] = _SINGLE | {
    operator.replace("{}", word): form.replace("{}", word)
    for operator, words, form in _FAMILIES
    for word in words.split(" ")
}

READABLE_STATEMENTS: Final[Mapping[str, str]] = {
    **{f"aten::_set_item.{key}": "_0[_1] = _2" for key in ("t", *_KEYS.split())},
    "aten::Delete.t": "del _0[_1]",
    **{f"aten::Delete.Dict_{key}": "del _0[_1]" for key in _KEYS.split()},
    "aten::add_.t": "_0.extend(_1)",
}
"""Operators that are statements in Python, as readable forms."""

NON_ZERO_DIVISOR: Final[Mapping[str, str]] = {
    "aten::div.int": "_0 / _1",
    "aten::div.float": "_0 / _1",
    "aten::div": "_0 / _1",
}
"""Readable forms for real numbers and a divisor that is a constant other than zero.

Python divides by no zero.
"""

WRAPPING: Final = frozenset({"aten::add.int", "aten::sub.int", "aten::mul.int", "aten::neg.int"})
"""Operators that wrap at 2**63: code that computes with such numbers keeps that."""


class ExactForm(NamedTuple):
    """``text`` with the numbers of operands, and names of helpers, in braces.

    ``is_pure``: with operands of the declared types it does not raise and changes nothing.
    ``range`` of an int result.
    """

    text: str
    is_pure: bool = True
    range: Range = ANY_INT

    @property
    def names(self) -> list[str]:
        """Return the names of the helpers that the text calls, ``native`` included."""
        return list(dict.fromkeys(_CALLED.findall(self.text)))


# Text whose bytes are its letters.
_IS_ASCII: Final = "{type}({0}) is {str} and {isascii}({0})"


def _as_read() -> Iterator[str]:
    """Yield the operators whose readable form is exact and pure."""
    for name, _ in _SIGNS:
        yield from (f"aten::{name}.{kind}" for kind in ("int", "float"))
    for name in ("eq", "ne"):
        yield from (f"aten::{name}.{kind}" for kind in ("str", "bool", "device", "enum"))
    for name, _ in _ARITHMETIC:
        yield from (f"aten::{name}.{kind}" for kind in ("float", "int_float", "float_int"))
    yield from (f"aten::__contains__.{key}" for key in _NATIVE_KEYS)
    yield from (f"aten::{name}.bool" for name in ("__and__", "__or__"))
    yield from (f"aten::{name}.int" for name in ("__and__", "__or__", "__xor__"))
    yield from ("aten::__not__", "aten::neg.float")


def _exact_rows() -> Iterator[tuple[str, ExactForm]]:
    for key in _as_read():
        yield key, _exact(READABLE_FORMS[key])
    for key in ("aten::__getitem__.t", "aten::select.t"):
        yield key, _exact(READABLE_FORMS[key])._replace(is_pure=False)
    for name, sign in _SIGNS:
        yield f"aten::{name}.int_float", ExactForm(f"{{float}}({{0}}) {sign} {{1}}")
        yield f"aten::{name}.float_int", ExactForm(f"{{0}} {sign} {{float}}({{1}})")
    for kind in ("int", "float"):
        yield f"prim::min.{kind}", ExactForm("{0} if {0} < {1} else {1}")
        yield f"prim::max.{kind}", ExactForm("{0} if {0} > {1} else {1}")
    for kind in ("int", "str"):
        text = "{1} in {0} if {type}({0}) is {list} else {native}({0}, {1})"
        yield f"aten::__contains__.{kind}_list", ExactForm(text, is_pure=False)
    for key in _NATIVE_KEYS:
        text = "{0}[{1}] if {1} in {0} else {native}({0}, {1})"
        yield f"aten::__getitem__.Dict_{key}", ExactForm(text, is_pure=False)


def _exact(readable: str) -> ExactForm:
    return ExactForm(_OPERAND.sub(r"{\1}", readable))


EXACT_FORMS: Final[Mapping[str, ExactForm]] = {
    **dict(_exact_rows()),
    "aten::__xor__.bool": ExactForm("{0} != {1}"),
    "prim::abs.float": ExactForm("{abs}({0})"),
    "aten::div.float": ExactForm("{0} / {1} if {1} else {native}({0}, {1})"),
    "aten::Int.float": ExactForm("{int}({0}) if -2.0**63 <= {0} < 2.0**63 else {native}({0})"),
    "aten::floordiv.int": ExactForm("{0} // {1} if {1} > 0 else {native}({0}, {1})", is_pure=False),
    "aten::__round_to_zero_floordiv.int": ExactForm(
        "{0} // {1} if {0} >= 0 and {1} > 0 else {native}({0}, {1})", is_pure=False
    ),
    "aten::remainder.int": ExactForm(
        f"{{0}} % {{1}} if 0 < {{1}} < {_HALF_RANGE} else {{native}}({{0}}, {{1}})", is_pure=False
    ),
    "aten::divmod.int": ExactForm(
        "{divmod}({0}, {1}) if {1} > 0 else {native}({0}, {1})", is_pure=False
    ),
    "aten::__getitem__.str": ExactForm(
        f"{{0}}[{{1}}] if {_IS_ASCII} and 0 <= {{1}} < {{len}}({{0}})"
        " else {native}({0}, {1})",
        is_pure=False,
    ),
    "aten::chr": ExactForm("{chr}({0}) if 0 <= {0} < 128 else {native}({0})", is_pure=False),
    "aten::len.str": ExactForm(f"{{len}}({{0}}) if {_IS_ASCII} else {{native}}({{0}})"),
    "aten::ord": ExactForm(
        f"{{ord}}({{0}}) if {_IS_ASCII} and {{len}}({{0}}) == 1 else {{native}}({{0}})",
        is_pure=False,
    ),
    **{
        f"prim::{name}": ExactForm(
            f"({{0}}.{name} if {{type}}({{0}}) in {{tensors}} else {{native}}({{0}}))",
            is_pure=False,
        )
        for name in _ATTRIBUTES.split()
    },
    "prim::type": ExactForm(
        "({0}.type if {type}({0}) is {device} else {native}({0}))", is_pure=False
    ),
}
"""Expressions, by the key of the native that each stands for."""

RANGES: Final[Mapping[str, Range]] = {
    **dict.fromkeys(("aten::len.t", "aten::len.str", "aten::len.Tensor", "aten::dim"), _LENGTH),
    **{f"aten::len.Dict_{key}": _LENGTH for key in _NATIVE_KEYS},
    "aten::ord": (0, 255),
    "aten::size.int": (0, _INT64_MAX),
}
"""Bounds of the results of functions."""

EXACT_STATEMENTS: Final[Mapping[str, ExactForm]] = {
    "aten::append.t": ExactForm("{append}({0}, {1})", is_pure=False),
    "aten::_set_item.t": ExactForm("{0}[{1}] = {2}", is_pure=False),
    **{
        f"aten::_set_item.{key}": ExactForm("{0}[{1}] = {2}", is_pure=False) for key in _NATIVE_KEYS
    },
}
"""Exact forms without a result, for where nothing uses it."""


RangedForm = Callable[..., tuple[str, Range] | None]


def _sum(a: Range, b: Range) -> tuple[str, Range]:
    return "{0} + {1}", (a[0] + b[0], a[1] + b[1])


def _product(a: Range, b: Range) -> tuple[str, Range]:
    corners = [x * y for x in a for y in b]
    return "{0} * {1}", (min(corners), max(corners))


def _derived(index: Range, start: Range, step: Range) -> tuple[str, Range]:
    """The number that a loop over a range has in turn ``index``."""
    _, advanced = _product(index, step)
    _, found = _sum(start, advanced)
    return ("{1} + {0}" if step == (1, 1) else "{1} + {0} * {2}"), found


def _quotient(a: Range, b: Range) -> tuple[str, Range] | None:
    if b[0] <= 0:
        return None
    corners = [x // y for x in a for y in b]
    return "{0} // {1}", (min(corners), max(corners))


def _cut_off(a: Range, b: Range) -> tuple[str, Range] | None:
    """A quotient that is rounded towards zero."""
    return _quotient(a, b) if a[0] >= 0 else None


def _remainder(a: Range, b: Range) -> tuple[str, Range] | None:
    if b[0] <= 0 or b[1] >= _HALF_RANGE:
        return None
    return "{0} % {1}", (0, b[1] - 1)


def _shifted_right(a: Range, b: Range) -> tuple[str, Range]:
    """x86-64 counts modulo 64."""
    is_plain = b[0] >= 0 and b[1] < _BITS
    return ("{0} >> {1}" if is_plain else "{0} >> ({1} & 63)"), (min(a[0], 0), max(a[1], 0))


RANGED: Final[Mapping[str, RangedForm]] = {
    "aten::add.int": _sum,
    "aten::sub.int": lambda a, b: ("{0} - {1}", (a[0] - b[1], a[1] - b[0])),
    "aten::mul.int": _product,
    "aten::neg.int": lambda a: ("-{0}", (-a[1], -a[0])),
    "prim::abs.int": lambda a: ("{abs}({0})", (0, max(abs(a[0]), abs(a[1])))),
    "aten::__derive_index": _derived,
    "aten::floordiv.int": _quotient,
    "aten::__round_to_zero_floordiv.int": _cut_off,
    "aten::remainder.int": _remainder,
    "aten::__rshift__.int": _shifted_right,
}
"""Pure forms of operators on ints, from the ranges of the operands, with the range of the result.

That range is not cut to 64 bits. None where some operands have no result.
"""


def exact_form(key: str, ranges: Sequence[Range], name: str) -> ExactForm | None:
    """Return the form of an operator on ints, given the ranges of its operands.

    A result that may go beyond 64 bits is wrapped; ``name`` is a variable that holds it for the
    test.
    """
    found = RANGED[key](*ranges)
    if found is None:
        return EXACT_FORMS.get(key)
    text, (low, high) = found
    if low >= _INT64_MIN and high <= _INT64_MAX:
        return ExactForm(text, range=(low, high))
    test = f"({name} := {text})"
    if low < _INT64_MIN:
        test = f"{_INT64_MIN} <= {test}"
    if high > _INT64_MAX:
        test = f"{test} <= {_INT64_MAX}"
    return ExactForm(f"{name} if {test} else {{wrap}}({name})")


BOUND_OTHERWISE: Final = frozenset({"bernoulli", "is_contiguous", "requires_grad_", "set_", "to"})
"""Operators whose bindings have other arguments, or do other things, or fail with other words."""

WITHOUT_NUMBERS: Final = frozenset(
    f"aten::{name}{end}.Scalar" for name in ("add", "sub", "mul", "div") for end in ("", "_")
)
"""Overloads that the bindings have no signature for: numbers act as tensors there."""

_TAKING_NUMBERS: Final = (
    "add", "div", "divide", "floor_divide", "mul", "multiply", "sub", "subtract", "true_divide",
)  # fmt: skip
NUMBERS_AS_TENSORS: Final = frozenset(
    {f"aten::{name}{end}" for name in _TAKING_NUMBERS for end in ("", "_", "_out")}
    | {f"aten::{name}" for name in ("_conj", "_to_copy", "copy", "copy_", "to")}
)
"""Operators whose bindings take a number for a tensor; all others refuse it."""

TAKES_LIST_ITEMS: Final = frozenset({"aten::expand", "aten::permute", "aten::repeat", "aten::view"})
"""Operators that are methods which take the items of their only list one by one as well."""

_MANY: Final = 1 << 16
TAKING_ITEMS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("block_diag", "broadcast_tensors", "cartesian_prod", "meshgrid"), _MANY),
    "einsum": 2,
}
"""Operators whose functions in torch take the items of a list one by one, at most so many.

Of more than two, ``torch.einsum`` chooses the order of multiplication.
"""

FUNCTIONALS: Final[Mapping[str, int]] = {
        "adaptive_avg_pool2d": 2, "adaptive_avg_pool3d": 2, "elu": 2, "glu": 2, "hardsigmoid": 1,
        "hardswish": 1, "hardtanh": 3, "leaky_relu": 2, "mish": 1, "pad": 4, "relu6": 1, "silu": 1,
    }  # fmt: skip
"""Functions of torch.nn.functional that do what the operator does with this many arguments."""

BOUND_BY_HAND: Final = frozenset(
    {
        "as_tensor", "from_file", "get_device", "index", "item", "new_tensor", "normal",
        "promote_types", "result_type", "sparse_bsc_tensor", "sparse_bsr_tensor",
        "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
        "sym_size", "sym_stride", "tensor", "type", "_has_compatible_shallow_copy_type",
    }
)  # fmt: skip
"""Operators whose functions have other arguments than the schema, and names that mislead."""

WITHOUT_ALPHA: Final = frozenset(
    f"aten::{name}{end}.Scalar" for name in ("add", "sub") for end in ("", "_")
)
"""Overloads whose functions take the third argument by position for another one."""


class PublicForm(NamedTuple):
    """A call of a public operator in place of an internal one.

    ``arguments`` are names of arguments of the internal operator, or constants; without them the
    public one takes the same arguments in the same order. Those in ``keywords`` are given by name.
    ``results`` tells which results of the internal operator the public one returns; the others are
    factors for the backward pass.
    """

    operator: str
    arguments: tuple[str | bool | None, ...] | None = None
    keywords: tuple[str, ...] = ()
    results: tuple[bool, ...] | None = None


_FIRST: Final = ("input", "weight", "bias")
_STATISTICS: Final = ("running_mean", "running_var")
_LAST: Final = ("momentum", "eps")
_SOLVED: Final = (True, False, False, True)


def _batch_norm(*arguments: str | bool | None) -> PublicForm:
    return PublicForm("aten::native_batch_norm", (*_FIRST, *arguments, *_LAST))


CALLS: Final[Mapping[str, PublicForm]] = {
    "aten::_adaptive_avg_pool2d": PublicForm("aten::adaptive_avg_pool2d"),
    "aten::_adaptive_avg_pool3d": PublicForm("aten::adaptive_avg_pool3d"),
    "aten::_cdist_forward": PublicForm("aten::cdist"),
    "aten::_linalg_det": PublicForm("aten::linalg_det", results=(True, False, False)),
    "aten::_linalg_eigvals": PublicForm("aten::linalg_eigvals"),
    "aten::_linalg_slogdet": PublicForm("aten::linalg_slogdet", results=(True, True, False, False)),
    "aten::_linalg_solve_ex": PublicForm(
        "aten::linalg_solve_ex", keywords=("left", "check_errors"), results=_SOLVED
    ),
    "aten::_native_batch_norm_legit": _batch_norm(*_STATISTICS, "training"),
    "aten::_native_batch_norm_legit.no_stats": _batch_norm(None, None, "training"),
    "aten::_native_batch_norm_legit_no_training": _batch_norm(*_STATISTICS, False),
    "aten::_pdist_forward": PublicForm("aten::pdist"),
    "aten::_to_dense": PublicForm("aten::to_dense", keywords=("masked_grad",)),
    "aten::_to_sparse": PublicForm(
        "aten::to_sparse", keywords=("layout", "blocksize", "dense_dim")
    ),
    "aten::_to_sparse.sparse_dim": PublicForm("aten::to_sparse.sparse_dim"),
    "aten::_to_sparse_bsc": PublicForm("aten::to_sparse_bsc"),
    "aten::_to_sparse_bsr": PublicForm("aten::to_sparse_bsr"),
    "aten::_to_sparse_csc": PublicForm("aten::to_sparse_csc"),
    "aten::_to_sparse_csr": PublicForm("aten::to_sparse_csr"),
    "aten::_unsafe_index.Tensor": PublicForm("aten::index.Tensor"),
    "aten::_unsafe_index_put": PublicForm("aten::index_put"),
    "prims::convert_element_type": PublicForm("aten::to.dtype", ("a", "dtype", False, True)),
    "prims::rev": PublicForm("aten::flip"),
    "prims::scalar_tensor": PublicForm("aten::scalar_tensor", keywords=("dtype", "device")),
}
"""Internal operators that one call replaces, by their full name."""
