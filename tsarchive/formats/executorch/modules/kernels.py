"""Resolution of kernel calls to schemas, and to the values that they write.

Arguments are in the order of the schema, including those that are written to. They are followed by
the value that receives the result: one of them, except for operators that return numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tsarchive.errors import FormatError, UnknownOperatorError, UnsupportedError
from tsarchive.formats.executorch.methods import KernelCall, Method, Operator
from tsarchive.formats.pt2.operators import PUBLIC_FORMS
from tsarchive.frontend.libraries import what_registers
from tsarchive.ir.schema import Argument, FunctionSchema, parse_schema
from tsarchive.ir.types import BOOL, FLOAT, INT, NUMBER, TENSOR, ListType, Type

FindOverloads = Callable[[str], Sequence[FunctionSchema]]


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel call. ``args`` are indices of values, one for each argument of the schema.

    ``result`` is the value that receives a returned number. ``public_form`` names the internal
    operator that a public one replaces. ``functional`` is the overload that allocates its results,
    for an operator that returns a list: many of these do not resize the tensors they are given.
    """

    name: str
    schema: FunctionSchema
    args: tuple[int, ...]
    result: int | None = None
    public_form: str | None = None
    functional: FunctionSchema | None = None

    @property
    def is_own(self) -> bool:
        """Whether the operator is implemented here for ExecuTorch alone."""
        return self.name in OWN_SCHEMAS

    def written(self) -> list[int]:
        """The values that are written to, including lists."""
        return [index for index, argument in self._pairs() if argument.is_write]

    def taken(self) -> list[int]:
        """The values that are inputs, rather than only ``out`` arguments."""
        return [index for index, argument in self._pairs() if not argument.is_out]

    def outs(self) -> list[int]:
        """The ``out`` arguments."""
        return [index for index, argument in self._pairs() if argument.is_out]

    def _pairs(self) -> Iterator[tuple[int, Argument]]:
        return zip(self.args, self.schema.arguments, strict=True)


class Calls:
    """Resolves the operators of one method. ``find`` gives the overloads of a name."""

    def __init__(self, method: Method, find: FindOverloads) -> None:
        self._method = method
        self._find = find
        self._known: dict[int, FunctionSchema] = {}

    def call(self, kernel: KernelCall) -> Call:
        """Resolve a kernel call.

        Raises UnknownOperatorError for an operator that is not registered in this process,
        FormatError for a wrong number of arguments.
        """
        operators = self._method.operators
        if not 0 <= kernel.operator < len(operators):
            raise FormatError(f"it calls operator {kernel.operator}, which is not there")
        operator = operators[kernel.operator]
        schema = self._schema(kernel.operator, operator)
        name, count = operator.qualified_name, len(schema.arguments)
        if any(argument.is_write for argument in schema.arguments):
            if len(kernel.args) not in (count, count + 1):
                raise _count_error(name, kernel.args, count + 1)
            args, form = kernel.args[:count], self._public_form(schema)
            return Call(name, schema, args, None, form, self._functional(schema))
        if len(kernel.args) != count + 1:
            raise _count_error(name, kernel.args, count + 1)
        if len(schema.returns) != 1 or schema.returns[0].type not in _NUMBERS:
            message = f"{name} makes a result of its own, which no value has memory for"
            raise UnsupportedError(message)
        return Call(name, schema, kernel.args[:count], kernel.args[count])

    def _functional(self, schema: FunctionSchema) -> FunctionSchema | None:
        if [argument.type for argument in schema.arguments if argument.is_out] != [TENSORS]:
            return None
        found = self._without_outs(schema)
        is_list = found is not None and [result.type for result in found.returns] == [TENSORS]
        return found if is_list else None

    def _public_form(self, schema: FunctionSchema) -> str | None:
        """Return the internal operator behind an ``out`` overload that has a public replacement."""
        if schema.name not in _STEPS:
            return None
        found = self._without_outs(schema)
        return None if found is None or found.full_name not in PUBLIC_FORMS else found.full_name

    def _without_outs(self, schema: FunctionSchema) -> FunctionSchema | None:
        """Return the overload with the same inputs that allocates its results."""
        taken = [(a.name, a.type) for a in schema.arguments if not a.is_out]
        for found in self._find(schema.name):
            if [(a.name, a.type) for a in found.arguments] == taken and found is not schema:
                return found
        return None

    def _schema(self, number: int, operator: Operator) -> FunctionSchema:
        found = self._known.get(number)
        if found is None:
            found = self._known[number] = self._found(operator)
        return found

    def _found(self, operator: Operator) -> FunctionSchema:
        own = OWN_SCHEMAS.get(operator.qualified_name)
        if own is not None:
            return own
        schemas = self._find(operator.name)
        for schema in schemas:
            if schema.overload == operator.overload and not schema.is_vararg:
                return schema
        raise UnknownOperatorError(
            f"the operator {operator.qualified_name} is not registered in this process",
            hint=None if schemas else what_registers(operator.name),
        )


def _count_error(name: str, args: tuple[int, ...], wanted: int) -> FormatError:
    return FormatError(f"{name} has {len(args)} arguments, and takes {wanted}")


TENSORS: Final = ListType(TENSOR)
_STEPS: Final = frozenset(step.partition(".")[0] for step in PUBLIC_FORMS)
_NUMBERS: Final = frozenset({INT, FLOAT, BOOL, NUMBER})
_ARITHMETIC: Final = "add sub mul floordiv sym_max sym_min"
_COMPARISONS: Final = "eq ne gt ge lt le"


def _prim(name: str, operands: str, result: str) -> tuple[str, FunctionSchema]:
    full = f"executorch_prim::{name}"
    return full, parse_schema(f"{full}({operands}) -> {result}")


_TEXTS: Final = (
    "executorch_prim::et_view.default(Tensor(b) self, int[] size, Tensor(a!) out) -> Tensor(a!)",
    "executorch_prim::et_copy_index.tensor(Tensor(a!) to, Tensor from, int index) -> Tensor(a!)",
    "dim_order_ops::_to_dim_order_copy.out"
    "(Tensor self, bool non_blocking, int[]? dim_order, Tensor(a!) out) -> Tensor(a!)",
    "dim_order_ops::_clone_dim_order.out"
    "(Tensor self, bool non_blocking, int[]? dim_order, Tensor(a!) out) -> Tensor(a!)",
    "dim_order_ops::_empty_dim_order.out"
    "(int[] size, int[]? dim_order, Tensor(a!) out) -> Tensor(a!)",
    "et_copy::_h2d_copy.out(Tensor self, Tensor(a!) out) -> Tensor(a!)",
    "et_copy::_d2h_copy.out(Tensor self, Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::quantize_per_tensor.out(Tensor input, float scale, int zero_point, "
    "int quant_min, int quant_max, int dtype, Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::quantize_per_tensor.Tensor_out(Tensor input, Tensor scale, "
    "Tensor zero_point, int quant_min, int quant_max, int dtype, Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::quantize_per_token.out(Tensor input, Tensor scales, "
    "Tensor zero_points, int quant_min, int quant_max, int dtype, Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::quantize_per_channel.out(Tensor input, Tensor scales, "
    "Tensor zero_points, int axis, int quant_min, int quant_max, int dtype, Tensor(a!) out) "
    "-> Tensor(a!)",
    "quantized_decomposed::dequantize_per_tensor.out(Tensor input, float scale, int zero_point, "
    "int quant_min, int quant_max, int dtype, int? out_dtype, Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::dequantize_per_tensor.Tensor_out(Tensor input, Tensor scale, "
    "Tensor zero_point, int quant_min, int quant_max, int dtype, int? out_dtype, "
    "Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::dequantize_per_token.out(Tensor input, Tensor scales, "
    "Tensor zero_points, int quant_min, int quant_max, int dtype, int? out_dtype, "
    "Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::dequantize_per_channel.out(Tensor input, Tensor scales, "
    "Tensor? zero_points, int axis, int quant_min, int quant_max, int dtype, int? out_dtype, "
    "Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::choose_qparams.Tensor_out(Tensor input, int quant_min, int quant_max, "
    "float eps, int dtype, Tensor(a!) scale_out, Tensor(b!) zero_point_out) "
    "-> (Tensor(a!), Tensor(b!))",
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out(Tensor input, int dtype, "
    "Tensor(a!) scale_out, Tensor(b!) zero_point_out) -> (Tensor(a!), Tensor(b!))",
    "quantized_decomposed::add.out(Tensor a, float a_scale, int a_zero_point, int a_quant_min, "
    "int a_quant_max, Tensor b, float b_scale, int b_zero_point, int b_quant_min, "
    "int b_quant_max, float out_scale, int out_zero_point, int out_quant_min, int out_quant_max, "
    "Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::mixed_mm.out(Tensor input, Tensor weight, Tensor weight_scales, "
    "Tensor? weight_zero_points, Tensor(a!) out) -> Tensor(a!)",
    "quantized_decomposed::mixed_linear.out(Tensor input, Tensor weight, Tensor weight_scales, "
    "Tensor? weight_zero_points, int? dtype, Tensor(a!) out) -> Tensor(a!)",
    *(
        f"quantized_decomposed::{name}.{overload}(Tensor weight, Tensor weight_scales, "
        "Tensor? weight_zero_points, int weight_quant_min, int weight_quant_max, "
        f"Tensor indices, {more}Tensor(a!) out) -> Tensor(a!)"
        for name in ("embedding_byte", "embedding_4bit", "embedding_2bit")
        for overload, more in (("out", ""), ("dtype_out", "int? dtype, "))
    ),
)

OWN_SCHEMAS: Final[Mapping[str, FunctionSchema]] = MappingProxyType(
    {
        **{text.partition("(")[0]: parse_schema(text) for text in _TEXTS},
        **dict(_prim(f"{n}.Scalar", "Scalar a, Scalar b", "Scalar") for n in _ARITHMETIC.split()),
        **dict(_prim(f"{n}.Scalar", "Scalar a, Scalar b", "bool") for n in _COMPARISONS.split()),
        **dict(_prim(f"{n}.Scalar", "float a", "int") for n in ("ceil", "round", "trunc")),
        **dict(
            (
                _prim("floordiv.int", "int a, int b", "int"),
                _prim("mod.int", "int a, int b", "int"),
                _prim("mod.Scalar", "int a, int b", "int"),
                _prim("truediv.Scalar", "Scalar a, Scalar b", "float"),
                _prim("neg.Scalar", "Scalar a", "Scalar"),
                _prim("sym_float.Scalar", "Scalar a", "float"),
                _prim("sym_int.Scalar", "Scalar a", "int"),
                _prim("sym_not.Scalar", "bool a", "bool"),
                _prim("sym_ite.Scalar", "bool condition, Scalar a, Scalar b", "Scalar"),
            )
        ),
        "aten::sym_size.int": parse_schema("aten::size.int(Tensor self, int dim) -> int"),
        "aten::sym_stride.int": parse_schema("aten::stride.int(Tensor self, int dim) -> int"),
        "aten::sym_numel": parse_schema("aten::numel(Tensor self) -> int"),
        "aten::_local_scalar_dense": parse_schema(
            "aten::_local_scalar_dense(Tensor self) -> Scalar"
        ),
    }
)
"""Operators of the runtime that torch does not have, or has under another name."""


def result_type(call: Call, operands: Sequence[Type], declared: Type) -> Type:
    """Return the type of the number that a call returns; ``declared`` is that of its value."""
    type_ = call.schema.returns[0].type
    if type_ != NUMBER:
        return type_
    given = [kind for kind in operands if kind in (INT, FLOAT)]
    if not given:
        return declared  # the number in a tensor
    return FLOAT if FLOAT in given else INT


def argument_fits(given: Type, argument: Argument) -> bool:
    """Return whether torch converts a number of this type implicitly."""
    return given in (INT, BOOL) and argument.type in _NUMBERS - {BOOL}
