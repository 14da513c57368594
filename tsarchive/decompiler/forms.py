"""Operators on numbers, strings, lists, dicts and tensors that Python's own syntax says.

The key is the full name of a schema, the value an expression of its arguments ``_0``, ``_1``, ...
An operator stands here where Python gives what TorchScript gives for all values that a program
meets; :func:`tsarchive.decompile` tells for which others it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

__all__ = ["FORMS", "NON_ZERO_DIVISOR", "STATEMENTS", "WRAPPING"]

_KEYS = ("str", "int", "bool", "float", "complex", "Tensor")
_NUMBERS = ("int", "float", "int_float", "float_int")
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}

# The braces stand for the type of the keys.
_DICTS = {
    "aten::len.Dict_{}": "len(_0)",
    "aten::keys.{}": "list(_0)",
    "aten::values.{}": "list(_0.values())",
    "aten::items.{}": "list(_0.items())",
    "aten::__contains__.{}": "_1 in _0",
    "aten::__getitem__.Dict_{}": "_0[_1]",
    "aten::get.{}": "_0.get(_1)",
    "aten::get.default_{}": "_0.get(_1, _2)",
    "aten::setdefault.{}": "_0.setdefault(_1, _2)",
    "aten::pop.Dict_{}": "_0.pop(_1)",
    "aten::pop.Dict_default_{}": "_0.pop(_1, _2)",
    "aten::clear.{}": "_0.clear()",
    "aten::update.{}": "_0.update(_1)",
    "aten::copy.Dict_{}": "_0.copy()",
    "aten::dict.Dict_{}": "dict(_0)",
    "aten::dict.{}": "dict(_0)",
}

_LISTS = {
    "aten::len.t": "len(_0)",
    "aten::len.any": "len(_0)",
    "aten::list.t": "list(_0)",
    "aten::copy.t": "_0.copy()",
    "aten::add.t": "_0 + _1",
    "aten::append.t": "_0.append(_1)",
    "aten::extend.t": "_0.extend(_1)",
    "aten::reverse.t": "_0.reverse()",
    "aten::clear.t": "_0.clear()",
    "aten::insert.t": "_0.insert(_1, _2)",
    "aten::pop.t": "_0.pop(_1)",
    "aten::__getitem__.t": "_0[_1]",
    "aten::select.t": "_0[_1]",
    "aten::eq.int_list": "_0 == _1",
    "aten::ne.int_list": "_0 != _1",
    "aten::eq.bool_list": "_0 == _1",
    "aten::ne.bool_list": "_0 != _1",
    "aten::eq.str_list": "_0 == _1",
    "aten::ne.str_list": "_0 != _1",
    "aten::__contains__.int_list": "_1 in _0",
    "aten::__contains__.str_list": "_1 in _0",
    "aten::sorted.int": "sorted(_0)",
    "aten::sorted.bool": "sorted(_0)",
    "aten::sort.int": "_0.sort(reverse=_1)",
    "aten::sort.bool": "_0.sort(reverse=_1)",
    "aten::count.int": "_0.count(_1)",
    "aten::count.bool": "_0.count(_1)",
    "aten::count.str": "_0.count(_1)",
    "aten::index.list_int": "_0.index(_1)",
    "aten::index.list_bool": "_0.index(_1)",
    "aten::index.list_str": "_0.index(_1)",
    "aten::remove.int": "_0.remove(_1)",
    "aten::remove.bool": "_0.remove(_1)",
    "aten::remove.str": "_0.remove(_1)",
    "aten::all.int": "all(_0)",
    "aten::all.float": "all(_0)",
    "aten::all.bool": "all(_0)",
    "aten::any.int": "any(_0)",
    "aten::any.float": "any(_0)",
    "aten::any.bool": "any(_0)",
    "aten::any.str": "any(_0)",
    "prim::min.self_int": "min(_0)",
    "prim::max.self_int": "max(_0)",
    "prim::min.self_bool": "min(_0)",
    "prim::max.self_bool": "max(_0)",
    "prim::min.int": "min(_0, _1)",
    "prim::max.int": "max(_0, _1)",
    "prim::rangelist": "list(range(_0))",
}

_SCALARS = {
    "aten::neg.int": "-_0",
    "aten::neg.float": "-_0",
    "aten::__not__": "not _0",
    "aten::__and__.bool": "_0 & _1",
    "aten::__or__.bool": "_0 | _1",
    "aten::__xor__.bool": "_0 ^ _1",
    "aten::__and__.int": "_0 & _1",
    "aten::__or__.int": "_0 | _1",
    "aten::__xor__.int": "_0 ^ _1",
    "aten::floordiv.int": "_0 // _1",
    "aten::remainder.int": "_0 % _1",
    "aten::divmod.int": "divmod(_0, _1)",
    "aten::eq.bool": "_0 == _1",
    "aten::ne.bool": "_0 != _1",
    "aten::eq.device": "_0 == _1",
    "aten::ne.device": "_0 != _1",
    "aten::eq.enum": "_0 == _1",
    "aten::ne.enum": "_0 != _1",
    "aten::eq.str": "_0 == _1",
    "aten::ne.str": "_0 != _1",
    "aten::lt.str": "_0 < _1",
    "aten::gt.str": "_0 > _1",
    "aten::le.str": "_0 <= _1",
    "aten::ge.str": "_0 >= _1",
    "aten::add.str": "_0 + _1",
    "aten::join": "_0.join(_1)",
    "aten::Int.bool": "int(_0)",
    "aten::Int.float": "int(_0)",
    "aten::Float.bool": "float(_0)",
    "aten::Bool.int": "bool(_0)",
    "aten::Bool.float": "bool(_0)",
    "aten::Complex.float_float": "complex(_0, _1)",
    "aten::hex": "hex(_0)",
    "aten::oct": "oct(_0)",
    "aten::bin": "bin(_0)",
    "aten::gcd.int": "math.gcd(_0, _1)",
    "aten::floor.float": "math.floor(_0)",
    "aten::ceil.float": "math.ceil(_0)",
    "aten::isnan.float": "math.isnan(_0)",
    "aten::isinf.float": "math.isinf(_0)",
    "aten::isfinite.float": "math.isfinite(_0)",
    "prim::abs.int": "abs(_0)",
    "prim::abs.float": "abs(_0)",
    "aten::Size": "_0",
    "aten::is_scripting": "True",
    "aten::_get_tracing_state": "False",
    "aten::is_grad_enabled": "torch.is_grad_enabled()",
    "aten::set_grad_enabled": "torch.set_grad_enabled(_0)",
    "aten::manual_seed": "torch.manual_seed(_0)",
    "prim::EnumName": "_0.name",
    "prim::EnumValue.int": "_0.value",
    "prim::EnumValue.float": "_0.value",
    "prim::EnumValue.str": "_0.value",
    "aten::wait": "_0.wait()",
    "prim::awaitable_wait": "_0.wait()",
}

_TENSORS = {
    "aten::len.Tensor": "len(_0)",
    "aten::dim": "_0.dim()",
    "prim::ndim.builtin": "_0.dim()",
    "aten::numel": "_0.numel()",
    "aten::item": "_0.item()",
    "aten::size.int": "_0.size(_1)",
    "aten::stride.int": "_0.stride(_1)",
    "aten::element_size": "_0.element_size()",
    "aten::storage_offset": "_0.storage_offset()",
    "aten::is_complex": "_0.is_complex()",
    "aten::is_floating_point": "_0.is_floating_point()",
    "aten::Bool.Tensor": "bool(_0)",
    "aten::Int.Tensor": "int(_0)",
    "aten::Float.Tensor": "float(_0)",
    "aten::IntImplicit": "int(_0)",
    "aten::FloatImplicit": "float(_0)",
    "aten::ComplexImplicit": "complex(_0)",
    "aten::ScalarImplicit": "_0.item()",
    "aten::neg": "-_0",
    "aten::matmul": "_0 @ _1",
    "aten::mul.Tensor": "_0 * _1",
    "aten::mul.Scalar": "_0 * _1",
    "aten::div.Tensor": "_0 / _1",
    "aten::div.Scalar": "_0 / _1",
    "aten::__and__.Tensor": "_0 & _1",
    "aten::__or__.Tensor": "_0 | _1",
    "aten::__xor__.Tensor": "_0 ^ _1",
    "aten::bitwise_not": "~_0",
    "aten::pow.Tensor_Scalar": "_0 ** _1",
    "aten::pow.Tensor_Tensor": "_0 ** _1",
    "aten::device": "torch.device(_0)",
    "aten::device.builtin": "torch.device(_0)",
    "aten::device.with_index": "torch.device(_0, _1)",
    "prim::type": "_0.type",
    "prim::index": "_0.index",
    **{f"prim::{name}.builtin": f"_0.{name}" for name in ("T", "H", "mT", "mH")},
}

_ATTRIBUTES = (
    "data", "device", "grad", "is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn",
    "is_mps", "is_mtia", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan",
    "is_xla", "is_xpu", "itemsize", "name", "nbytes", "requires_grad",
)  # fmt: skip


def _rows() -> Iterator[tuple[str, str]]:
    for key_type in _KEYS:
        yield from ((key.format(key_type), form) for key, form in _DICTS.items())
    for name, sign in _COMPARISONS.items():
        yield from ((f"aten::{name}.{kind}", f"_0 {sign} _1") for kind in _NUMBERS)
        yield from ((f"aten::{name}.{kind}", f"_0 {sign} _1") for kind in ("Tensor", "Scalar"))
    for name, sign in _ARITHMETIC.items():
        yield from ((f"aten::{name}.{kind}", f"_0 {sign} _1") for kind in _NUMBERS)
    for kind in ("float", "int", "complex"):
        yield f"aten::mul.builtin_{kind}_Tensor", "_0 * _1"
        yield f"aten::add.builtin_{kind}_Tensor", "_0 + _1"
    yield from ((f"prim::{name}", f"_0.{name}") for name in _ATTRIBUTES)


FORMS: Mapping[str, str] = MappingProxyType({**dict(_rows()), **_LISTS, **_SCALARS, **_TENSORS})

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "aten::_set_item.t": "set",
        **{f"aten::_set_item.{key}": "set" for key in _KEYS},
        "aten::Delete.t": "delete",
        **{f"aten::Delete.Dict_{key}": "delete" for key in _KEYS},
        "aten::add_.t": "extend",
    }
)
"""Operators that are statements in Python, by the kind of statement."""

NON_ZERO_DIVISOR: Mapping[str, str] = MappingProxyType(
    {
        "aten::div.int": "_0 / _1",
        "aten::div.float": "_0 / _1",
    }
)
"""Forms for a divisor that is a constant other than zero, by which Python would not divide."""

WRAPPING = frozenset({"aten::add.int", "aten::sub.int", "aten::mul.int", "aten::neg.int"})
"""Operators that wrap at 2**63: code that computes with such numbers keeps that."""
