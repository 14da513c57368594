"""Code motion: which nodes may be computed later, where their result is used."""

from __future__ import annotations

from collections.abc import Container

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Node, Value
from tsarchive.ir.types import INT

_ALIASES = frozenset({"prim::unchecked_cast", "prim::unchecked_unwrap_optional"})
_BUILDERS = frozenset({"prim::TupleConstruct", "prim::ListConstruct", "prim::TupleIndex"})


class Movable:
    """Decides for one archive; ``assigned`` holds the attributes that its code sets."""

    def __init__(self, assigned: Container[tuple[ClassType, str]]) -> None:
        self._assigned = assigned

    def __call__(self, node: Node) -> bool:
        """Whether the value of the node does not depend on when it is computed.

        Tuples and lists count where one user reads them; their items must be at hand, too.
        """
        if node.kind in _ALIASES or node.kind == "prim::Uninitialized":
            return True
        if node.kind == "prim::GetAttr":
            owner = node.input.type
            is_fixed = isinstance(owner, ClassType) and (owner, node.name) not in self._assigned
            return is_fixed and isinstance(owner, ClassType) and owner.is_module
        if node.kind in _BUILDERS:
            return len(node.output.uses) == 1 and node.output.name is None
        if node.kind == "prim::NumToTensor":
            return node.input.type == INT and all(
                _only_converts(use.user) for use in node.output.uses
            )
        return False


def _only_converts(user: Node) -> bool:
    return user.schema is not None and user.schema.full_name == "aten::Int.Tensor"


def dtype_values(nodes: list[Node], takes_dtype: dict[Value, list[bool]]) -> set[Value]:
    """The results of prim::dtype that can stay a torch.dtype because all users take one."""
    found = {value for value, answers in takes_dtype.items() if all(answers)}
    changed = True
    while changed:
        changed = False
        for node in nodes:
            if node.kind not in ("aten::eq", "aten::ne"):
                continue
            bad = [value for value in node.inputs if not _is_dtype(value, found)]
            mine = [value for value in node.inputs if value in found]
            if bad and mine:
                found.difference_update(mine)
                changed = True
    return found


def _is_dtype(value: Value, found: set[Value]) -> bool:
    return value in found or (value.node.is_constant and isinstance(_content(value), int))


def _content(value: Value) -> object:
    content: object = value.node.attributes["value"]
    return content
