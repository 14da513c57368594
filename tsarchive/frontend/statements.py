"""Statements without blocks: assignments, returns, expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import ClassVar

from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.graph import Value
from tsarchive.ir.names import to_identifier
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import TENSOR, ListType, TupleType, Type

from .arithmetic import AUGMENTED
from .calls import positional
from .environment import shown
from .expressions import Expressions
from .references import Reference, Results, Typed, typed

_PACKED = "__torch__.torch.classes.quantized."

StatementHandler = Callable[..., None]


def has_meaning(name: str) -> bool:
    """Whether a name tells something; ``_0`` and such only number values."""
    return not (name.startswith("_") and (len(name) == 1 or name[1:].isdigit()))


def _is_packed(given: Type, declared: Type) -> bool:
    """Packed weights in a slot of an archive in which they were tensors.

    torch reads such code, too, and raises where it runs.
    """
    if declared != TENSOR or not isinstance(given, ClassType):
        return False
    return given.is_native and given.qualified_name.startswith(_PACKED)


class Statements(Expressions):
    """Compiles statements; ``handlers`` says how."""

    handlers: ClassVar[dict[type[ast.stmt], StatementHandler]]

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.statement = self.position = statement
            handler = self.handlers.get(type(statement))
            if handler is None:
                self.refuse(statement, f"a statement {type(statement).__name__}")
            handler(self, statement)

    def bind(self, name: str, reference: Reference, node: ast.AST) -> None:
        """Assign without annotation."""
        outer = self.scope.find_outside(name)
        if outer is not None:
            reference = self._reassigned(name, outer, reference, node)
        if isinstance(reference, Typed):
            # ``[]`` fits any list where it is written; a variable that holds it is a List[Tensor].
            reference = reference._replace(is_empty_list=False)
        self.scope.bind(name, reference)

    def _reassigned(
        self, name: str, outer: Reference, reference: Reference, node: ast.AST
    ) -> Reference:
        """A name of an outer block keeps its type there: the value must fit it."""
        if not isinstance(outer, Typed) or not isinstance(reference, Typed | Results):
            raise self.error(node, f"{name!r} cannot be assigned again inside a block")
        given = self.as_value(reference, node)
        converted = self.convert(given, outer.type)
        if converted is None:
            raise self.error(
                node,
                f"{name!r} was of type {shown(outer.type)}, "
                f"but is assigned a value of type {shown(given.type)}",
            )
        return converted

    def declare(self, name: str, given: Typed, type_: Type, node: ast.AST) -> None:
        """Assign with annotation."""
        if self.scope.find_outside(name) is not None:
            raise self.error(node, f"{name!r} is defined in an outer block: it has a type already")
        if not is_subtype(given.type, type_):
            raise self.error(
                node,
                f"{name!r} is annotated with {shown(type_)}, "
                f"but is assigned a value of type {shown(given.type)}",
            )
        self.scope.bind(name, Typed(given.value, type_))

    def fresh_name(self, value: Value, name: str, since: int) -> None:
        """Name a value after the variable that holds it first.

        ``since`` is the number of nodes in the block before the value was computed: older
        values, and those of other blocks, are only aliases.
        """
        if value.name is not None or value.node not in self.scope.block.nodes[since:]:
            return
        if has_meaning(name):
            value.name = name
        elif value.node.kind == "prim::GetAttr":
            # Of an attribute "0", "_0" or "-0" the value is called _0, uniquely: _0, _00, _01, ...
            proposed = to_identifier(value.node.name)
            if not has_meaning(proposed) and name.startswith(proposed):
                self.frame.reads[value] = proposed

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) == 1:
            self._assign_to(node.targets[0], node.value)
            return
        reference = self.expression(node.value)
        for target in node.targets:
            self._store(target, reference, len(self.scope.block.nodes))

    def _assign_to(self, target: ast.expr, value: ast.expr) -> None:
        since = len(self.scope.block.nodes)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            self._assign_pairwise(target, value)
            return
        if isinstance(target, ast.Attribute):
            base = self.value(target.value)
            self._set_attribute(target, base, self.value(value))
            return
        constants = len(self.frame.constants)
        reference = self.expression(value)
        self._store(target, reference, since)
        if isinstance(target, ast.Name) and isinstance(reference, Typed):
            self._name_constant(reference.value, target.id, constants)

    def _name_constant(self, value: Value, name: str, before: int) -> None:
        is_new = len(self.frame.constants) > before and value.node.is_constant
        if is_new and value.name is None and has_meaning(name) and self._at_top():
            value.name = name

    def _at_top(self) -> bool:
        return self.scope.block is self.frame.body

    def _assign_pairwise(self, target: ast.Tuple, value: ast.Tuple) -> None:
        """``a, b = x, y``: no tuple is made."""
        if len(target.elts) != len(value.elts):
            raise self.error(target, f"{len(value.elts)} values for {len(target.elts)} names")
        references = [self.expression(element) for element in value.elts]
        for element, reference in zip(target.elts, references, strict=True):
            self._store(element, reference, len(self.scope.block.nodes))

    def _store(self, target: ast.expr, reference: Reference, since: int) -> None:
        match target:
            case ast.Name(name):
                if isinstance(reference, Results):
                    reference = self.as_value(reference, target)
                if isinstance(reference, Typed):
                    self.fresh_name(reference.value, name, since)
                self.bind(name, reference, target)
            case ast.Tuple(elements):
                self._unpack(elements, reference, target, since)
            case ast.Attribute():
                base = self.value(target.value)
                self._set_attribute(target, base, self.as_value(reference, target))
            case ast.Subscript():
                self._set_element(target, self.as_value(reference, target))
            case _:
                self.refuse(target, "an assignment to this")

    def _unpack(
        self, targets: Sequence[ast.expr], reference: Reference, node: ast.AST, since: int
    ) -> None:
        if isinstance(reference, Results):
            parts = [typed(value) for value in reference.values]
        else:
            parts = self._parts(self.as_value(reference, node), len(targets), node)
        if len(parts) != len(targets):
            raise self.error(node, f"{len(parts)} values to unpack into {len(targets)} names")
        for target, part in zip(targets, parts, strict=True):
            self._store(target, part, since)

    def _parts(self, given: Typed, count: int, node: ast.AST) -> list[Typed]:
        if isinstance(given.type, TupleType):
            return self.unpack(given)
        if isinstance(given.type, ListType):
            types = [given.type.element] * count
            made = self.append("prim::ListUnpack", [given.value], *types)
            return [typed(value) for value in made.outputs]
        raise self.error(node, f"a value of type {shown(given.type)} cannot be unpacked")

    def _set_attribute(self, target: ast.Attribute, base: Typed, given: Typed) -> None:
        slots = base.type.attributes if isinstance(base.type, ClassType) else {}
        slot = slots.get(target.attr) or self._declared_by_init(target, base, given)
        if slot is None:
            raise self.error(target, f"{shown(base.type)} has no attribute {target.attr!r}")
        if not is_subtype(given.type, slot.type) and not _is_packed(given.type, slot.type):
            raise self.error(
                target,
                f"attribute {target.attr!r} is of type {shown(slot.type)}, "
                f"but is assigned a value of type {shown(given.type)}",
            )
        self.append("prim::SetAttr", [base.value, given.value], name=target.attr)

    def _declared_by_init(
        self, target: ast.Attribute, base: Typed, given: Typed
    ) -> Attribute | None:
        class_ = self.importer.initialising
        if class_ is None or base.type is not class_:
            return None
        if self.scope.block is not self.frame.body:
            raise self.error(
                target,
                f"{shown(class_)} gets the attribute {target.attr!r} inside of a condition or loop",
            )
        name = target.attr
        return class_.attributes.setdefault(name, Attribute(name, given.type))

    def _set_element(self, target: ast.Subscript, given: Typed) -> None:
        base = self.value(target.value)
        arguments = positional(base, self.value(target.slice), given)
        self.call_operator("aten::_set_item", arguments, target)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.refuse(node, "a declaration without value")
        type_ = self.type_of(node.annotation)
        since = len(self.scope.block.nodes)
        if isinstance(node.target, ast.Attribute):
            base = self.value(node.target.value)
            self._set_attribute(node.target, base, self.value(node.value, type_))
            return
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "an annotation of this")
        given = self.value(node.value, type_)
        self.fresh_name(given.value, node.target.id, since)
        self.declare(node.target.id, given, type_, node)

    def _augmented(self, node: ast.AugAssign) -> None:
        """``x += y`` changes tensors and lists in place, and computes a new value of others."""
        match node.target:
            case ast.Name(name):
                load: ast.expr = ast.Name(name, ast.Load())
            case ast.Attribute(base, name):
                load = ast.Attribute(base, name, ast.Load())
            case _:
                self.refuse(node, "an assignment to this")
        kinds = AUGMENTED.get(type(node.op))
        if kinds is None:
            self.refuse(node, "this sign")
        left = self.value(ast.copy_location(load, node.target))
        in_place = left.type == TENSOR or isinstance(left.type, ListType)
        kind = kinds[0 if in_place else 1]
        result = self.operator_value(kind, positional(left, self.value(node.value)), node)
        self._store(node.target, result, len(self.scope.block.nodes))

    def _expression_statement(self, node: ast.Expr) -> None:
        self.expression(node.value)

    def _pass(self, node: ast.Pass) -> None:
        pass


PLAIN_STATEMENTS: dict[type[ast.stmt], StatementHandler] = {
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.Expr: Statements._expression_statement,
    ast.Pass: Statements._pass,
}
