"""Where generated source names members of objects: slots, of what is seen to be of its class.

What a module has stands in its ``__dict__``, which it keeps as long as it lives. So a method asks
for that once, and for what is in it wherever it reads a slot: any call may have changed a slot.
Attributes of modules would take longer, because ``torch.nn.Module`` has a ``__getattr__``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import Node, Value
from tsarchive.ir.types import Type

from .inlining import Inlining
from .linkage import Linkage
from .receivers import checked, is_certain, read_slot
from .slots import (
    SlotKind,
    find_buffer,
    find_list,
    find_parameter,
    holds_list,
    slot_key,
    slot_kind,
)

__all__ = ["Members"]

_FINDERS: Final[dict[SlotKind, Callable[[Any, str], Any]]] = {
    SlotKind.PARAMETER: find_parameter,
    SlotKind.BUFFER: find_buffer,
}


class Members(Inlining):
    """Texts for what objects of archive classes hold."""

    def __init__(self, function: Function, linkage: Linkage) -> None:
        super().__init__(linkage)
        self.function = function
        self.own_members = ""
        self._table = self.names.unique("table")

    def class_name(self, type_: Type) -> str:
        class_ = self.linkage.table.python_class(type_)
        return self.globals.name(class_.__name__, class_)

    def receiver(self, value: Value) -> str:
        """Like ``use``, for a value of which a member is named: it must be of its class."""
        text = self.use(value)
        class_ = self.class_to_check(value)
        if class_ is None:
            return text
        check = self.globals.name("checked", checked)
        return f"({text} if {self.is_of(text, class_)} else {check}({text}, {class_}))"

    def class_to_check(self, value: Value) -> str | None:
        """The name of the class that a value must be seen to be of; None where it is certain."""
        type_ = value.type
        if not isinstance(type_, ClassType) or type_.is_native or is_certain(value, self.function):
            return None
        return self.class_name(type_)

    def is_of(self, text: str, class_: str) -> str:
        """A test whether a value is of this very class."""
        if not self.dispatch.inlines:
            return f"{text}.__class__ is {class_}"
        return f"{self.globals.name('type', type)}({text}) is {class_}"

    def get_attr(self, node: Node) -> str:
        own, is_there = self._own_slot(node)
        class_ = self.class_to_check(node.input)
        tests = [] if class_ is None else [self.is_of(self.use(node.input), class_)]
        tests += [is_there] if is_there else []
        if not tests:
            return own
        return f"({own} if {' and '.join(tests)} else {self._slot_elsewhere(node, class_)})"

    def _own_slot(self, node: Node) -> tuple[str, str]:
        """A slot of an object that is of its class, and when it can be read so; "" for always."""
        kind, key = self.slot(node)
        if self.reads_members(node):
            return self._in_members(node.input, kind, key)
        text = self.use(node.input)
        find = find_list if _holds_list(node) else _FINDERS.get(kind)
        own = f"{text}.{kind.value}[{key!a}]" if find is None else self._found(find, text, key)
        return own, ""

    def _in_members(self, module: Value, kind: SlotKind, key: str) -> tuple[str, str]:
        members = self.members(module)
        if kind is SlotKind.PLAIN:
            return f"{members}[{key!a}]", ""
        table = f"{members}[{kind.value!a}]"
        if kind is SlotKind.MODULE:
            return f"{table}[{key!a}]", ""
        return f"{self._table}[{key!a}]", f"{key!a} in ({self._table} := {table})"

    def _slot_elsewhere(self, node: Node, class_: str | None) -> str:
        """A slot of what is of another class, or a tensor that Python code took elsewhere."""
        text = self.use(node.input)
        if class_ is None:
            return self._found(_FINDERS[self.slot(node)[0]], text, node.name)
        return f"{self.globals.name('read_slot', read_slot)}({text}, {class_}, {node.name!a})"

    def _found(self, find: Callable[[Any, str], Any], text: str, key: str) -> str:
        return f"{self.globals.name(find.__name__, find)}({text}, {key!a})"

    def reads_members(self, node: Node) -> bool:
        """Whether a node reads a slot straight from the dictionary of a module.

        Tracers do better with attributes.
        """
        if not (self.dispatch.inlines and node.kind == "prim::GetAttr"):
            return False
        return _is_module(node.input.type) and not _holds_list(node)

    def members(self, module: Value) -> str:
        """The dictionary of a module, which holds all that it has."""
        if self.own_members and module is self.own_module():
            return self.own_members
        return f"{self.use(module)}.__dict__"

    def own_module(self) -> Value | None:
        """The first argument of a method of modules, which is certain to be of its class."""
        params = self.function.graph.params
        if not params or not _is_module(params[0].type):
            return None
        return params[0] if is_certain(params[0], self.function) else None

    def slot(self, node: Node) -> tuple[SlotKind, str]:
        """The table and the key of the slot that a GetAttr or SetAttr names."""
        owner = node.inputs[0].type
        assert isinstance(owner, ClassType)
        kind = slot_kind(owner, owner.attributes[node.name])
        return kind, slot_key(owner, node.name) if kind is SlotKind.PLAIN else node.name


def _holds_list(node: Node) -> bool:
    owner = node.input.type
    assert isinstance(owner, ClassType)
    return holds_list(owner, owner.attributes[node.name])


def _is_module(type_: Type) -> bool:
    return isinstance(type_, ClassType) and type_.is_module and not type_.is_native
