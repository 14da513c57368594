"""Nodes for operations on typed values: calls, literals, elements, attributes.

What a form of code means depends on the static types of its parts; its syntax is looked at in
``lowering.py``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from tsarchive.errors import ArchiveError, SourceError, UnknownOperatorError
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType, method_schema
from tsarchive.ir.constants import Device, EnumMember, GeneratorSeed, is_device
from tsarchive.ir.graph import Value
from tsarchive.ir.schema import NO_DEFAULT, Argument, FunctionSchema
from tsarchive.ir.subtyping import fits, flat_members, is_subtype, unify_all
from tsarchive.ir.type_parser import DICT_KEYS
from tsarchive.ir.types import (
    BOOL,
    DEVICE,
    GENERATOR,
    INT,
    NONE,
    STRING,
    TENSOR,
    UNKNOWN,
    DictType,
    EnumType,
    ListType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    annotation,
    simple_type,
)
from tsarchive.ir.values import is_default
from tsarchive.operators.libraries import what_registers
from tsarchive.operators.removed import TRIED_FIRST
from tsarchive.operators.upgraders import Candidate

from .context import CURRENT, UNKNOWN_NAME, Context
from .matching import Call, Conversions, Input, Mismatch, Plan, refused, schema_text
from .places import Cursor, Located, shorten
from .references import (
    CASTS,
    MAGIC,
    OPERATORS,
    Constructor,
    Frame,
    FunctionReference,
    MethodReference,
    Namespace,
    OperatorNamespace,
    OperatorReference,
    Reference,
    Results,
    Special,
    ToList,
    Typed,
    TypeReference,
    decide_isinstance,
    typed,
)

# Properties of tensors that are operators of the namespace prim; others are aten's.
_PRIM_PROPERTIES = frozenset(
    {
        "T", "H", "mT", "mH", "data", "device", "dtype", "grad", "is_cpu", "is_cuda", "is_ipu",
        "is_leaf", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized",
        "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu", "itemsize", "layout",
        "names", "nbytes", "ndim", "requires_grad", "shape",
    }
)  # fmt: skip
# Operators of which constant arguments make constants.
_BY_VALUE = frozenset({"aten::device", "aten::Generator"})
_CONSTANT = re.compile(r"c(\d{1,9})")
# The number of torch.bool.
_BOOL_DTYPE = 11


class Emitter:
    """Appends the nodes of a frame: operations on values, and what they denote.

    ``node`` is where errors are reported.
    """

    def __init__(self, context: Context, cursor: Cursor, frame: Frame) -> None:
        self.context = context
        self.world = context.open
        self.cursor = cursor
        self.frame = frame
        self.conversions = Conversions(frame, context.operators)
        # The call whose result is unpacked into so many names.
        self.unpacked: tuple[Located | None, int] = (None, 1)

    def append(self, kind: str, inputs: Sequence[Value], type_: Type, **attributes: Any) -> Typed:
        """Append a node with one result, and return the result."""
        return typed(self.frame.append(kind, inputs, type_, **attributes).output)

    def constant(self, value: Any, type_: Type) -> Typed:
        return typed(self.frame.constant(value, type_))

    def as_value(self, reference: Reference, node: Located) -> Typed:
        """Return the value that a reference stands for where a value is needed."""
        match reference:
            case Typed():
                return reference
            case FunctionReference(function):
                return self.constant(function, function.type)
            case Results(values, names):
                type_ = TupleType(tuple(value.type for value in values), None, names)
                if not values:
                    return self.constant((), type_)
                return self.append("prim::TupleConstruct", values, self.frame.checked(type_))
        error = self.cursor.error(node, f"{shorten(ast.unparse(node))!r} is not a value")
        if self.world is not None:
            match reference:
                case MethodReference(target, name):
                    return self._refused("prim::GetAttr", Call([target]), error, name=name)
                case OperatorReference(kind, target):
                    self.world.refuse(error)
                    return self.unresolved(kind, Call([*filter(None, [target])]), error)
        raise error

    def unknown_name(self, name: str, error: ArchiveError, **attributes: Any) -> Typed:
        """Return what a name that means nothing stands for, in an open world."""
        return self.unresolved(UNKNOWN_NAME, Call(()), error, name=name, **attributes)

    def unresolved(self, kind: str, call: Call, error: ArchiveError, **attributes: Any) -> Typed:
        """Append a node of which the meaning is not known, in an open world."""
        if call.keywords:
            attributes["keywords"] = tuple(call.keywords)
        values = [value.value for value in call.values]
        made = self.frame.append(kind, values, UNKNOWN, **attributes)
        made.refusal = error
        return typed(made.output)

    def none(self) -> Typed:
        return self.constant(None, NONE)

    def call_operator(
        self, kind: str, call: Call, node: Located, *, is_written: bool = False
    ) -> Reference:
        """Append a call of the overload of ``kind`` that accepts the arguments."""
        if self.context.dialect is not CURRENT:
            kind, call = self._of_dialect(kind, call, node)
        try:
            if self.world is not None and any(v.type is UNKNOWN for v in call.values):
                raise UnknownOperatorError.of(kind, f"the arguments of {kind} are not known")
            candidate, match = self.context.overloads.choose(kind, self.frame.version, call)
            if candidate.refusal and self.world is None and not self.context.infers_foreign:
                raise refused(candidate)
        except UnknownOperatorError as error:
            self.cursor.locate(error, node)
            if self.context.infers_foreign and not self.context.operators(kind):
                return self._foreign_operator(kind, call, node)
            if self.world is None:
                raise error from None
            given = [*filter(None, [call.target]), *call.positional]
            found = self.unresolved(kind, Call(given, call.keywords), error)
            found.value.node.is_written = is_written
            return found
        inputs = self.conversions.inputs(match.inputs, call.values)
        function = self._function_for(candidate)
        if function is not None:
            return self.call_function(function, Call([*map(typed, inputs)]), node)
        made = self.frame.append(kind, inputs, *match.returns, schema=candidate.schema)
        if candidate.upgrader is not None:
            made.upgrader = candidate.upgrader
            made.stand_in = self.context.stand_in(candidate)
            made.writes_all = kind in TRIED_FIRST
        made.is_written = is_written
        last = match.written - 1
        if last >= 0 and is_default(candidate.schema.arguments[last].default, inputs[last]):
            made.written_arguments = match.written  # a printer would leave some out
        if len(made.outputs) == 1:
            return typed(made.output)
        names = tuple(result.name for result in candidate.schema.returns)
        return Results(made.outputs, names if all(names) else ())

    def plan(self, kind: str, call: Call) -> Plan | None:
        """Return what a call becomes, for all calls with positional arguments of these types.

        None where that depends on more, or an argument is converted. Raises UnknownOperatorError.
        """
        candidate, match = self.context.overloads.choose(kind, self.frame.version, call)
        given, count = match.inputs, len(call.values)
        defaults = [i.source for i in given[count:] if isinstance(i.source, Argument)]
        is_plain = (
            given[:count] == [*map(Input, range(count))]
            and len(defaults) == len(given) - count
            and len(match.returns) == 1
            and kind not in _BY_VALUE
        )
        if not is_plain or candidate.refusal or candidate.upgrader is not None:
            return None
        last = candidate.schema.arguments[count - 1].default if match.written else NO_DEFAULT
        return Plan(candidate.schema, tuple(defaults), match.returns[0], last)

    def _foreign_operator(self, kind: str, call: Call, node: Located) -> Reference:
        """Append a call of an operator that a library has, by what the call itself tells."""
        given = [*filter(None, [call.target]), *call.positional]
        arguments = [Argument(f"_{i}", value.type) for i, value in enumerate(given)]
        arguments += [
            Argument(name, value.type, kwarg_only=True) for name, value in call.keywords.items()
        ]
        returns = (Argument("", TENSOR),) * self._results_of(node)
        schema = FunctionSchema(kind, "", tuple(arguments), returns)
        values = [value.value for value in (*given, *call.keywords.values())]
        types = [result.type for result in returns]
        made = self.frame.append(kind, values, *types, schema=schema)
        return typed(made.output) if len(returns) == 1 else Results(made.outputs, ())

    def _results_of(self, node: Located) -> int:
        """Return how many names a call of a foreign function is assigned to."""
        call, count = self.unpacked
        return count if call is node else 1

    def _is_foreign(self, type_: Type) -> bool:
        is_class = isinstance(type_, ClassType) and type_.is_native and not type_.methods
        return self.context.infers_foreign and is_class

    def _function_for(self, candidate: Candidate) -> Function | None:
        """Return the function that stands for an operator in code of an old dialect.

        In methods torch's upgraders stand for what they can.
        """
        dialect, version = self.context.dialect, self.frame.version
        is_free = version == dialect.free_version
        if not dialect.functions or version is None or not (is_free or candidate.upgrader is None):
            return None
        old = candidate.upgrader or candidate.schema.full_name
        found = self.context.find(dialect.functions.get(old, ""))
        return found.function if isinstance(found, FunctionType) else None

    def _of_dialect(self, kind: str, call: Call, node: Located) -> tuple[str, Call]:
        """Return a call of an old dialect as it is written today."""
        dialect = self.context.dialect
        kind = dialect.renamed.get(kind, kind)
        positional, keywords = list(call.positional), dict(call.keywords)
        place = dialect.masks.get(kind)
        if place is not None and place < len(positional):
            no, to_bool = self.constant(False, BOOL), self.constant(_BOOL_DTYPE, INT)
            mask = self.operator_value("aten::to", node, positional[place], to_bool, no, no)
            positional[place] = mask
        if dialect.flags.get(kind) == len(positional):
            positional.append(self.constant(True, BOOL))
        dtype = dialect.dtypes.get(kind)
        if kind in dialect.element_dtypes and positional:
            dtype = dialect.element_dtypes[kind].get(_of_numbers(positional[0].type))
        given = keywords.get("dtype")
        if dtype is not None and "out" not in keywords and (given is None or given.type == NONE):
            keywords["dtype"] = self.constant(dtype, INT)
        return kind, Call(positional, keywords, call.target)

    def operator_value(self, kind: str, node: Located, *given: Typed) -> Typed:
        return self.as_value(self.call_operator(kind, Call(given), node), node)

    def _arguments(self, schema: FunctionSchema, call: Call, node: Located) -> list[Value]:
        """Return the arguments of a call of a function, converted and with defaults filled in."""
        if not call.keywords and call.target is None and _are_as_declared(call.positional, schema):
            return [value.value for value in call.positional]
        found = call.match(schema, convert=True)
        if isinstance(found, Mismatch):
            raise self.cursor.error(node, f"{schema_text(schema)} does not take this call: {found}")
        return self.conversions.inputs(found.inputs, call.values)

    def call_function(self, function: Function, call: Call, node: Located) -> Typed:
        value = self.constant(function, function.type)
        try:
            given = self._arguments(function.schema, call, node)
        except SourceError as error:
            full = Call([value, *call.positional], call.keywords)
            return self._refused("prim::CallFunction", full, error)
        inputs = [value.value, *given]
        return self.append("prim::CallFunction", inputs, function.schema.return_type)

    def _missing(self, kind: str, type_: Type, name: str, node: Located) -> SourceError:
        """Return the error for a class without a member, or a library that is not here."""
        if not (isinstance(type_, ClassType) and type_.is_native and not type_.methods):
            return self.cursor.error(node, "{} has no {} {!r}", type_, kind, name)
        text = "the class {} is not registered in this process; its {} {!r} is needed"
        error = self.cursor.error(node, text, type_, kind, name)
        error.hint = what_registers(type_.qualified_name)
        return error

    def call_method(self, target: Typed, name: str, call: Call, node: Located) -> Typed:
        schema = method_schema(target.type, name)
        full = Call([target, *call.positional], call.keywords)
        if self._is_foreign(target.type):
            count = self._results_of(node)
            type_ = TENSOR if count == 1 else TupleType((TENSOR,) * count)
            values = [value.value for value in full.values]
            return self.append("prim::CallMethod", values, type_, name=name)
        try:
            if schema is None:
                raise self._missing("method", target.type, name, node)
            inputs = self._arguments(schema, full, node)
        except SourceError as error:
            return self._refused("prim::CallMethod", full, error, name=name)
        return self.append("prim::CallMethod", inputs, schema.return_type, name=name)

    def _refused(self, kind: str, call: Call, error: SourceError, **attributes: Any) -> Typed:
        """Append a node that does not fit, in an open world; else raise.

        That is no fault where an argument is not known.
        """
        if self.world is None:
            raise error
        if not any(self.world.is_open(value.type) for value in call.values):
            self.world.refuse(error)
        return self.unresolved(kind, call, error, **attributes)

    def construct(self, type_: Type, call: Call, node: Located) -> Typed:
        """``N(a, b)`` of a named tuple, or ``C(a)`` of a class with ``__init__``."""
        if isinstance(type_, TupleType):
            fields = map(Argument, type_.fields, type_.elements)
            schema = FunctionSchema(annotation(type_), "", tuple(fields), ())
            given = self._arguments(schema, call, node)
            return self.conversions.tuple_of([typed(value) for value in given], type_)
        if not isinstance(type_, ClassType) or type_.is_module:
            raise self.cursor.error(node, "{} cannot be created by a call", type_)
        made = self.append("prim::CreateObject", (), type_)
        is_open = self.world is not None and self.world.is_open(type_)
        if "__init__" in type_.methods or is_open:
            self.call_method(made, "__init__", call, node)
        return made

    def call_named_operator(self, kind: str, call: Call, node: Located) -> Reference:
        """Call an operator by its name; devices and generators may be constants."""
        if self.world is not None:
            return self.call_operator(kind, call, node, is_written=True)
        if kind == "aten::device" and len(call.positional) == 1:
            constant = call.positional[0].value.constant
            if isinstance(constant, str) and is_device(constant):
                return self.constant(Device(constant), DEVICE)
        if kind == "aten::Generator":
            match {name: given.value.constant for name, given in call.keywords.items()}:
                case {"device": str(device), "seed": int(seed)} if is_device(device):
                    return self.constant(GeneratorSeed(device, seed), GENERATOR)
        return self.call_operator(kind, call, node)

    def check_instance(self, given: Typed, types: tuple[Type, ...]) -> Typed:
        known = decide_isinstance(given.type, types)
        if known is not None:
            return self.constant(known, BOOL)
        return self.append("prim::isinstance", [given.value], BOOL, types=types)

    def to_list(self, target: Typed, call: Call, node: Located, hint: Type | None) -> Typed:
        if hint is None or call.positional or call.keywords:
            text = "tolist() needs the type of its result: annotate(T, x.tolist())"
            raise self.cursor.error(node, text)
        return self.append("prim::tolist", [target.value], hint)

    def call_builtin(self, name: str, call: Call, node: Located) -> Reference:
        given = call.positional
        if name in MAGIC and given and isinstance(given[0].type, ClassType):
            rest = Call(given[1:], call.keywords)
            return self.call_method(given[0], MAGIC[name], rest, node)
        if name in CASTS:
            return self._cast(name, call, node)
        return self.call_operator(OPERATORS[name], call, node)

    def _cast(self, name: str, call: Call, node: Located) -> Reference:
        type_ = simple_type(name)
        if len(call.positional) == 1 and not call.keywords:
            (given,) = call.positional
            if is_subtype(given.type, type_):
                return given
            has_length = isinstance(given.type, ListType | DictType) or given.type == STRING
            if type_ == BOOL and has_length:
                length = self.operator_value("aten::len", node, given)
                return self.operator_value("aten::gt", node, length, self.constant(0, INT))
        return self.call_operator(CASTS[name], call, node)

    def as_condition(self, given: Typed, node: Located) -> Typed:
        """Convert a value to the condition of an ``if`` or ``while``."""
        return self.as_value(self.call_builtin("bool", Call([given]), node), node)

    def attribute(self, base: Reference, name: str, node: Located) -> Reference:
        if type(base) is Typed:
            if type(base.type) is ClassType:
                return self._of_object(base, base.type, name, node)
            return self._of_value(base, name, node)
        if type(base) is OperatorNamespace:
            if base.name == "aten" and name == "autograd":
                return base
            if base.name == "aten" and name == "ops" and self.world is not None:
                return Special.OPS
            return OperatorReference(f"{base.name}::{name}")
        match base:
            case Namespace(prefix):
                return self._in_namespace(f"{prefix}.{name}")
            case Special.OPS:
                return OperatorNamespace(name)
            case Special.CONSTANTS:
                return self._from_table(name, node)
            case TypeReference():
                return self._of_type(base, name, node)
            case Results():
                return self._of_value(self.as_value(base, node), name, node)
        error = self.cursor.error(node, f"there is nothing called {name!r} in this expression")
        if self.world is None:
            raise error
        match base:
            case MethodReference() | OperatorReference(_, Typed()):
                return self._of_value(self.as_value(base, node), name, node)
        return self.unknown_name(shorten(ast.unparse(node)), error)

    def _in_namespace(self, qualified_name: str) -> Reference:
        found = self.context.find(qualified_name)
        if found is None and self.world is not None:
            found = self.world.bound_class(qualified_name)
        if found is None:
            return Namespace(qualified_name)
        if isinstance(found, FunctionType):
            return FunctionReference(found.function)
        return TypeReference(found)

    def _from_table(self, name: str, node: Located) -> Typed:
        match = _CONSTANT.fullmatch(name)
        if match is None:
            text = "CONSTANTS.{} names no constant; constants are c0, c1, ..."
            raise self.cursor.error(node, text, name)
        try:
            value, type_ = self.context.constant(int(match[1]))
        except IndexError:
            text = "constant {} is beyond the end of the constant table"
            hint = "The archive's constants.pkl does not belong to this code"
            raise self.cursor.error(node, text, match[1], hint=hint) from None
        return self.constant(value, type_)

    def _of_type(self, base: TypeReference, name: str, node: Located) -> Reference:
        match base.type:
            case ClassType() if name == "__new__":
                return Constructor(base.type)
            case ClassType():
                for hook in base.type.hooks():
                    if hook.name == name:
                        return FunctionReference(hook)
            case EnumType(members=members) if name in members:
                return self.constant(EnumMember(base.type, name, members[name]), base.type)
        raise self.cursor.error(node, "{} has no member {!r}", base.type, name)

    def _of_value(self, base: Typed, name: str, node: Located) -> Reference:
        if name in _PRIM_PROPERTIES and base.type == TENSOR:
            return self.operator_value(f"prim::{name}", node, base)
        if base.type is UNKNOWN:
            return MethodReference(base, name)
        match base.type:
            case ClassType():
                return self._of_object(base, base.type, name, node)
            case InterfaceType(methods=methods) if name in methods:
                return MethodReference(base, name)
            case TupleType(fields=fields) if name in fields:
                return self._tuple_element(base, self.constant(fields.index(name), INT), node)
            case EnumType(value_type=value_type) if name in ("value", "name"):
                if name == "name":
                    return self.append("prim::EnumName", [base.value], STRING)
                return self.append("prim::EnumValue", [base.value], value_type)
        if name == "tolist" and base.type == TENSOR:
            return ToList(base)
        return OperatorReference(f"aten::{name}", base)

    def _of_object(self, base: Typed, class_: ClassType, name: str, node: Located) -> Reference:
        slot = class_.attributes.get(name)
        if slot is not None:
            made = self.frame.append("prim::GetAttr", [base.value], slot.type, name=name)
            self.frame.reads[made.output] = None
            return typed(made.output)
        if name in class_.methods:
            return MethodReference(base, name)
        if name in class_.constants:
            constant = class_.constants[name]
            return self.constant(constant.value, constant.type)
        if self._is_foreign(class_):
            return MethodReference(base, name)
        error = self._missing("attribute or method", class_, name, node)
        if self.world is None:
            raise error
        return MethodReference(base, name)

    def element(self, base: Typed, index: Typed, node: Located, hint: Type | None) -> Typed:
        """``base[index]`` for everything but tensors."""
        match base.type:
            case TupleType():
                return self._tuple_element(base, index, node)
            case ClassType(is_module=True) if hint is not None:
                found = self.operator_value("prim::ModuleContainerIndex", node, base, index)
                found.value.type = hint
                return typed(found.value)
            case ClassType():
                return self.call_method(base, "__getitem__", Call([index]), node)
        if isinstance(base.type, ListType | DictType) or base.type in (STRING, UNKNOWN):
            return self.operator_value("aten::__getitem__", node, base, index)
        raise self.cursor.error(node, "a value of type {} has no elements", base.type)

    def _tuple_element(self, base: Typed, index: Typed, node: Located) -> Typed:
        assert isinstance(base.type, TupleType)
        elements = base.type.elements
        if not fits(index.type, INT) or not elements:
            raise self.cursor.error(node, "{} has no element {}", base.type, index.type)
        type_ = elements[0]
        if index.type is UNKNOWN:
            type_ = UNKNOWN
        elif index.value.node.is_constant:
            place = index.value.constant
            if not -len(elements) <= place < len(elements):
                text = "index {} is out of range of {} elements"
                raise self.cursor.error(node, text, place, len(elements))
            type_ = elements[place]
        elif not all(is_subtype(element, type_) for element in elements):
            text = "the index of a tuple of different types must be an integer literal"
            raise self.cursor.error(node, text)
        return self.append("prim::TupleIndex", [base.value, index.value], type_)

    def tuple_slice(
        self, base: Typed, begin: int | None, end: int | None, step: int | None
    ) -> Typed:
        assert isinstance(base.type, TupleType)
        if step not in (None, 1):
            indices = range(len(base.type.elements))[begin:end:step]
            elements = self.conversions.unpack(base)
            return self.conversions.tuple_of([elements[index] for index in indices])
        first, last, _ = slice(begin, end).indices(len(base.type.elements))
        type_ = TupleType(base.type.elements[first:last])
        return self.append("prim::TupleSlice", [base.value], type_, beg=first, end=max(first, last))

    def slice_of(
        self, base: Typed, dim: int | None, bounds: Sequence[Typed | None], node: Located
    ) -> Typed:
        """Slice a list, a string, or the dimension ``dim`` of a tensor."""
        given = [self.none() if bound is None else bound for bound in bounds]
        if bounds[2] is None:
            given[2] = self.constant(1, INT)
        leading = [base] if dim is None else [base, self.constant(dim, INT)]
        return self.operator_value("aten::slice", node, *leading, *given)

    def tensor_element(
        self, base: Typed, indices: Sequence[Typed | tuple[Typed | None, ...]], node: Located
    ) -> Typed:
        """``tensor[indices]``: a tuple of bounds is a slice, None adds a dimension, an int
        removes one, and tensors select by position."""
        dim = 0
        selected: dict[int, Typed] = {}
        for index in indices:
            if not isinstance(index, Typed):
                base = self.slice_of(base, dim, index, node)
                dim += 1
            elif index.type == NONE:
                base = self.operator_value("aten::unsqueeze", node, base, self.constant(dim, INT))
                dim += 1
            elif index.type == INT:
                where = self.constant(dim, INT)
                base = self.operator_value("aten::select", node, base, where, index)
            else:
                selected[dim] = self._index_tensor(index, node)
                dim += 1
        return self._select_positions(base, selected, node) if selected else base

    def _index_tensor(self, index: Typed, node: Located) -> Typed:
        if isinstance(index.type, ListType):
            return self.operator_value("aten::tensor", node, index)
        if not fits(index.type, OptionalType(TENSOR)):
            raise self.cursor.error(node, "a tensor cannot be indexed with {}", index.type)
        return index

    def _select_positions(self, base: Typed, selected: dict[int, Typed], node: Located) -> Typed:
        values = [selected.get(dim, self.none()).value for dim in range(max(selected) + 1)]
        indices = typed(self.frame.list_of(OptionalType(TENSOR), values))
        return self.operator_value("aten::index", node, base, indices)

    def list_literal(self, node: Located, elements: Sequence[Typed], hint: Type | None) -> Typed:
        types = [element.type for element in elements]
        wanted = _hinted(hint, ListType, types)
        values = [element.value for element in elements]
        if wanted is None:
            element = unify_all(types, or_union=True) if types else TENSOR
            assert element is not None
            made = self.frame.list_of(element, values)
            return typed(made)._replace(is_empty_list=not types)
        for type_ in types:
            self._check(node, type_, wanted.element, "an element")
        return typed(self.frame.list_of(wanted.element, values))

    def dict_literal(
        self, node: ast.Dict, keys: Sequence[Typed], values: Sequence[Typed], hint: Type | None
    ) -> Typed:
        if keys and keys[0].type not in DICT_KEYS and keys[0].type is not UNKNOWN:
            raise self.cursor.error(node, "a dict cannot have keys of type {}", keys[0].type)
        types = [value.type for value in values]
        type_ = _hinted(hint, DictType, types)
        if type_ is None:
            value_type = unify_all(types, or_union=True) if types else TENSOR
            assert value_type is not None
            type_ = DictType(keys[0].type if keys else STRING, value_type)
        for key, value in zip(keys, values, strict=True):
            self._check(node, key.type, type_.key, "a key")
            self._check(node, value.type, type_.value, "a value")
        inputs = [part.value for pair in zip(keys, values, strict=True) for part in pair]
        return self.append("prim::DictConstruct", inputs, self.frame.checked(type_))

    def _check(self, node: Located, actual: Type, wanted: Type, what: str) -> None:
        if not fits(actual, wanted):
            text = "{} of type {} stands where {} is expected"
            raise self.cursor.error(node, text, what, actual, wanted)


_Container = TypeVar("_Container", ListType, DictType)


def _hinted(hint: Type | None, kind: type[_Container], types: Sequence[Type]) -> _Container | None:
    """Return the type of a literal with elements of ``types`` under the annotation ``hint``."""
    members = () if hint is None else flat_members(hint)
    found = [member for member in members if isinstance(member, kind)]
    for member in found:
        wanted = member.parts()[-1]
        if all(is_subtype(type_, wanted) for type_ in types):
            return member
    return found[0] if found else None


_UNIFORM = (SimpleType, ClassType)


def _are_as_declared(given: Sequence[Typed], schema: FunctionSchema) -> bool:
    """Return whether there is a value for each argument, and all are of just these types."""
    declared = schema.arguments
    return len(given) == len(declared) and all(
        [
            value[1] is argument[1] and type(value[1]) in _UNIFORM
            for value, argument in zip(given, declared, strict=True)
        ]
    )


def _of_numbers(type_: Type) -> Type:
    """Return the type of the numbers in nested lists."""
    return _of_numbers(type_.element) if isinstance(type_, ListType) else type_
