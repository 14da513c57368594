"""``x[i]`` and ``x[a:b]``: elements and slices of lists, dicts, strings, tuples and tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tsarchive.ir.classes import ClassType
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import (
    INT,
    NONE,
    STRING,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
)

from .calls import positional
from .environment import shown
from .literals import Literals
from .references import Typed, typed


class Subscripts(Literals):
    def element(self, base: Typed, index: Typed, node: ast.Subscript, hint: Type | None) -> Typed:
        """``base[index]`` for everything but tensors."""
        match base.type:
            case TupleType():
                return self._tuple_element(base, index, node)
            case ClassType(is_module=True) if hint is not None:
                found = self.operator_value(
                    "prim::ModuleContainerIndex", positional(base, index), node
                )
                found.value.type = hint
                return typed(found.value)
            case ClassType():
                return self.call_method(base, "__getitem__", positional(index), node)
            case ListType() | DictType():
                return self.operator_value("aten::__getitem__", positional(base, index), node)
        if base.type == STRING:
            return self.operator_value("aten::__getitem__", positional(base, index), node)
        raise self.error(node, f"a value of type {shown(base.type)} has no elements")

    def _tuple_element(self, base: Typed, index: Typed, node: ast.AST) -> Typed:
        assert isinstance(base.type, TupleType)
        elements = base.type.elements
        if index.type != INT or not elements:
            raise self.error(node, f"{shown(base.type)} has no element {shown(index.type)}")
        type_ = elements[0]
        if index.value.node.is_constant:
            type_ = self._element_type(elements, index.value.node.attributes["value"], node)
        elif not all(is_subtype(element, type_) for element in elements):
            raise self.error(
                node, "the index of a tuple of different types must be an integer literal"
            )
        return typed(self.append("prim::TupleIndex", [base.value, index.value], type_).output)

    def _element_type(self, elements: Sequence[Type], index: int, node: ast.AST) -> Type:
        if not -len(elements) <= index < len(elements):
            raise self.error(node, f"index {index} is out of range of {len(elements)} elements")
        return elements[index]

    def field(self, base: Typed, name: str, node: ast.AST) -> Typed:
        """A field of a named tuple, which is an element by number."""
        assert isinstance(base.type, TupleType)
        return self._tuple_element(base, self.constant(base.type.fields.index(name), INT), node)

    def tuple_slice(
        self, base: Typed, begin: int | None, end: int | None, step: int | None
    ) -> Typed:
        assert isinstance(base.type, TupleType)
        if step not in (None, 1):
            indices = range(len(base.type.elements))[begin:end:step]
            elements = self.unpack(base)
            return self.tuple_of([elements[index] for index in indices])
        first, last, _ = slice(begin, end).indices(len(base.type.elements))
        type_ = TupleType(base.type.elements[first:last])
        made = self.append("prim::TupleSlice", [base.value], type_, beg=first, end=max(first, last))
        return typed(made.output)

    def slice_of(
        self, base: Typed, dim: int | None, bounds: Sequence[Typed | None], node: ast.AST
    ) -> Typed:
        """A slice of a list, a string, or of dimension ``dim`` of a tensor."""
        given = [self.none() if bound is None else bound for bound in bounds]
        if bounds[2] is None:
            given[2] = self.constant(1, INT)
        leading = [base] if dim is None else [base, self.constant(dim, INT)]
        return self.operator_value("aten::slice", positional(*leading, *given), node)

    def tensor_element(
        self, base: Typed, indices: Sequence[Typed | tuple[Typed | None, ...]], node: ast.AST
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
                where = positional(base, self.constant(dim, INT))
                base = self.operator_value("aten::unsqueeze", where, node)
                dim += 1
            elif index.type == INT:
                where = positional(base, self.constant(dim, INT), index)
                base = self.operator_value("aten::select", where, node)
            else:
                selected[dim] = self._index_tensor(index, node)
                dim += 1
        return self._select_positions(base, selected, node) if selected else base

    def _index_tensor(self, index: Typed, node: ast.AST) -> Typed:
        if isinstance(index.type, ListType):
            return self.operator_value("aten::tensor", positional(index), node)
        if not is_subtype(index.type, OptionalType(TENSOR)):
            raise self.error(node, f"a tensor cannot be indexed with {shown(index.type)}")
        return index

    def _select_positions(self, base: Typed, selected: dict[int, Typed], node: ast.AST) -> Typed:
        values = [selected.get(dim, self.none()).value for dim in range(max(selected) + 1)]
        indices = self.list_of(OptionalType(TENSOR), values)
        return self.operator_value("aten::index", positional(base, indices), node)
