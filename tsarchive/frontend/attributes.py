"""``x.name``: attributes and methods of values, members of types, names in namespaces."""

from __future__ import annotations

import ast
import re

from tsarchive.ir.classes import ClassType, FunctionType, InterfaceType
from tsarchive.ir.types import STRING, TENSOR, EnumType, TupleType
from tsarchive.ir.values import EnumMember

from .calls import positional
from .environment import shown
from .references import (
    Constructor,
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
    typed,
)
from .subscripts import Subscripts

# Properties of tensors that are operators of the namespace prim; others are aten's.
_PRIM_PROPERTIES = frozenset(
    {
        "T", "H", "mT", "mH", "data", "device", "dtype", "grad", "is_cpu", "is_cuda", "is_ipu",
        "is_leaf", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized",
        "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu", "itemsize", "layout",
        "names", "nbytes", "ndim", "requires_grad", "shape",
    }
)  # fmt: skip
_CONSTANT = re.compile(r"c(\d{1,9})")


class Attributes(Subscripts):
    def attribute(self, base: Reference, name: str, node: ast.AST) -> Reference:
        if type(base) is Typed:
            return self._of_value(base, name, node)
        if type(base) is OperatorNamespace:
            if base.name == "aten" and name == "autograd":
                return base
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
        raise self.error(node, f"there is nothing called {name!r} in this expression")

    def _in_namespace(self, qualified_name: str) -> Reference:
        found = self.importer.find(qualified_name)
        if found is None:
            return Namespace(qualified_name)
        return (
            FunctionReference(found.function)
            if isinstance(found, FunctionType)
            else (TypeReference(found))
        )

    def _from_table(self, name: str, node: ast.AST) -> Typed:
        match = _CONSTANT.fullmatch(name)
        if match is None:
            raise self.error(node, f"CONSTANTS.{name} names no constant; constants are c0, c1, ...")
        try:
            value, type_ = self.importer.constant(int(match[1]))
        except IndexError:
            raise self.error(
                node,
                f"constant {match[1]} is beyond the end of the constant table",
                "The archive's constants.pkl does not belong to this code",
            ) from None
        return self.constant(value, type_)

    def _of_type(self, base: TypeReference, name: str, node: ast.AST) -> Reference:
        match base.type:
            case ClassType() if name == "__new__":
                return Constructor(base.type)
            case ClassType():
                for hook in base.type.hooks():
                    if hook.name == name:
                        return FunctionReference(hook)
            case EnumType(members=members) if name in members:
                return self.constant(EnumMember(base.type, name, members[name]), base.type)
        raise self.error(node, f"{shown(base.type)} has no member {name!r}")

    def _of_value(self, base: Typed, name: str, node: ast.AST) -> Reference:
        if name in _PRIM_PROPERTIES and base.type == TENSOR:
            return self.operator_value(f"prim::{name}", positional(base), node)
        match base.type:
            case ClassType():
                return self._of_object(base, base.type, name, node)
            case InterfaceType(methods=methods) if name in methods:
                return MethodReference(base, name)
            case TupleType(fields=fields) if name in fields:
                return self.field(base, name, node)
            case EnumType(value_type=value_type) if name in ("value", "name"):
                kind, type_ = (
                    ("prim::EnumValue", value_type)
                    if name == "value"
                    else ("prim::EnumName", STRING)
                )
                return typed(self.append(kind, [base.value], type_).output)
        if name == "tolist" and base.type == TENSOR:
            return ToList(base)
        return OperatorReference(f"aten::{name}", base)

    def _of_object(self, base: Typed, class_: ClassType, name: str, node: ast.AST) -> Reference:
        slot = class_.attributes.get(name)
        if slot is not None:
            made = self.append("prim::GetAttr", [base.value], slot.type, name=name)
            self.frame.reads[made.output] = None
            return typed(made.output)
        if name in class_.methods:
            return MethodReference(base, name)
        if name in class_.constants:
            constant = class_.constants[name]
            return self.constant(constant.value, constant.type)
        raise self.error(node, f"{class_.qualified_name} has no attribute or method {name!r}")
