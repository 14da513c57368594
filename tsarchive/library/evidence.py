"""What a module of an archive tells about the arguments that its class was constructed with."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import COMPUTED, Node, Value, walk
from tsarchive.ir.types import TENSOR
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.slots import SHARED_SLOTS, SlotKind, get_slot, slot_kind

_SCALARS: Final = (bool, int, float, str, type(None))
_SEQUENCES: Final = frozenset({"prim::ListConstruct", "prim::TupleConstruct"})
_COMPARISONS: Final = frozenset(
    {"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"}
)
_NUMBERS_OF_TENSORS: Final = frozenset(
    {"aten::Bool", "aten::Int", "aten::Float", "aten::item", "aten::is_nonzero"}
)
_MOST_NODES: Final = 4096


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts about one module, its submodules and its code.

    ``values`` are plain attributes and constants of the class, by name, and ``inner_values`` those
    of its submodules, by dotted path. ``arguments`` are
    constants that the code gives to operators and functions, by the name of the parameter, and
    ``constants`` all others in it; ``compared`` are the whole numbers that it compares others with.
    ``shapes`` are those of all tensors, by their path.
    """

    values: Mapping[str, Any]
    inner_values: Mapping[str, Any]
    arguments: Mapping[str, tuple[Any, ...]]
    constants: tuple[Any, ...]
    compared: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]

    def without_sizes(self) -> Any:
        """Return what does not tell numbers above 1 apart in values and shapes."""
        found = self.values, self.inner_values, self.arguments, self.constants, self.shapes
        return _without_sizes(found)


def _without_sizes(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_sizes(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_without_sizes, value))
    return "n" if type(value) is int and value > 1 else value


def evidence_of(module: ArchiveModule) -> Evidence:
    """Collect what a module and its code tell."""
    arguments: dict[str, list[Any]] = defaultdict(list)
    constants: list[Any] = []
    compared: list[int] = []
    for node in itertools.islice(code_of(module), _MOST_NODES):
        for name, value in _named_inputs(node):
            found = plain_constant(value)
            if found is not COMPUTED:
                _add(arguments[name], found)
                _add(constants, found)
                if node.kind in _COMPARISONS and type(found) is int:
                    _add(compared, found)
    inner_values = _inner_values(module)
    for value in inner_values.values():
        _add(constants, value)
    return Evidence(
        plain_values(module),
        inner_values,
        {name: tuple(found) for name, found in arguments.items()},
        tuple(constants),
        tuple(compared),
        {path: tuple(tensor.shape) for path, tensor in tensors_of(module)},
    )


def _add(found: list[Any], value: Any) -> None:
    """Append a value that is not there; 1, 1.0 and True are different."""
    if not any(type(value) is type(other) and value == other for other in found):
        found.append(value)


def plain_values(module: ArchiveModule) -> dict[str, Any]:
    """Return the constants of a class, and the attributes of a module that hold no tensors."""
    class_: ClassType = module.tsarchive_class
    found = {name: comparable(constant.value) for name, constant in class_.constants.items()}
    for attribute in class_.attributes.values():
        if attribute.name not in SHARED_SLOTS and slot_kind(class_, attribute) is SlotKind.PLAIN:
            value = comparable(get_slot(module, attribute))
            if is_plain_value(value):
                found[attribute.name] = value
    return found


def _inner_values(module: ArchiveModule) -> dict[str, Any]:
    return {
        f"{path}.{name}": value
        for path, part in module.named_modules()
        if part is not module and isinstance(part, ArchiveModule)
        for name, value in plain_values(part).items()
    }


def comparable(value: Any) -> Any:
    """Return a value with tuples for lists, which archives have in the place of tuples."""
    return tuple(map(comparable, value)) if isinstance(value, (list, tuple)) else value


def is_plain_value(value: Any) -> bool:
    """Return whether a value is a number, text, or a sequence of them."""
    return isinstance(value, _SCALARS) or (
        isinstance(value, tuple) and all(map(is_plain_value, value))
    )


def tensors_of(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters and buffers of a module and all below it, shared ones as often."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def code_of(module: ArchiveModule) -> Iterator[Node]:
    """Yield the nodes of the methods of a module, of its submodules, and of what they call."""
    waiting: list[Function] = []
    for part in module.modules():
        if isinstance(part, ArchiveModule):
            waiting += part.tsarchive_class.methods.values()
    seen = set(waiting)
    while waiting:
        for node in walk(waiting.pop().graph.nodes):
            yield node
            called = node.output.type if node.is_constant else None
            if isinstance(called, FunctionType) and called.function not in seen:
                seen.add(called.function)
                waiting.append(called.function)


def beyond_comparison(module: ArchiveModule) -> str | None:
    """Say what code does that comparing results of calls cannot show; None where it does nothing.

    It prints, sets a plain attribute, or goes another way for some values of a tensor.
    """
    return next(filter(None, map(_beyond_comparison, code_of(module))), None)


def _beyond_comparison(node: Node) -> str | None:
    if node.kind == "prim::Print":
        return "its code prints"
    if node.kind == "prim::SetAttr" and isinstance(node.inputs[0].type, ClassType):
        class_ = node.inputs[0].type
        if slot_kind(class_, class_.attributes[node.name]) is SlotKind.PLAIN:
            return f"its code sets {node.name!r}"
    conditions = {"prim::If": 1, "prim::Loop": 2}.get(node.kind, 0)
    if any(map(_tells_values, node.inputs[:conditions])):
        return "its code decides by the values of a tensor"
    return None


def _tells_values(value: Value) -> bool:
    """Return whether a number is computed from what is in a tensor; sizes of a trace are not."""
    waiting, seen = [value], {value}
    while waiting:
        node = waiting.pop().node
        if node.kind in _NUMBERS_OF_TENSORS and node.input.type == TENSOR:
            return node.input.node.kind != "prim::NumToTensor"
        returned = [each for block in node.blocks for each in block.returns]
        before = {each for each in (*node.inputs, *returned) if each.type != TENSOR} - seen
        waiting += before
        seen |= before
    return False


def _named_inputs(node: Node) -> Iterator[tuple[str, Value]]:
    """Yield the inputs of a call with the names of the parameters."""
    schema, inputs = node.schema, node.inputs
    if node.kind == "prim::CallFunction" and isinstance(node.input.type, FunctionType):
        schema, inputs = node.input.type.function.schema, inputs[1:]
    for argument, value in zip(schema.arguments if schema else (), inputs, strict=False):
        yield argument.name, value


def plain_constant(value: Value) -> Any:
    """Return a number, text or sequence of them that code writes; COMPUTED for other values."""
    if value.node.kind in _SEQUENCES:
        items = tuple(map(plain_constant, value.node.inputs))
        return COMPUTED if any(item is COMPUTED for item in items) else items
    found = comparable(value.constant)
    return found if is_plain_value(found) else COMPUTED
