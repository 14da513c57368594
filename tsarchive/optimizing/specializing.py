"""A body of its own for calls like the example, where sizes are known and questions are answered.

What tensors are is found without numbers: each operator runs on fake tensors. What depends on the
numbers in them stays unknown. Other calls run the body as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tsarchive.ir.classes import Function
from tsarchive.ir.constants import Device
from tsarchive.ir.graph import CONSTANT, Block, Node, Value, carried_values, walk
from tsarchive.ir.rewriting import copy_block, copy_node, remove, replace, set_input
from tsarchive.ir.types import (
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NUMBER,
    STRING,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    Type,
)
from tsarchive.operators.effects import ASKING_SIZES, ASKING_TYPES, is_pure

from .attention import fuse_attention
from .freezing import Written, number_of, result_of, simplify
from .graphs import Inserter, SizesOf, all_true, each_node, tensor_of
from .lists import gather_lists
from .packing import has_sums
from .recurrence import find_recurrence
from .tuples import lower_tuples
from .views import join_views

_UNKNOWN: Final = object()
_PLAIN: Final = (bool, int, float, str, type(None), torch.device)
# What these tell of a tensor does not depend on its numbers, their order, or autocast.
_OF_TENSORS: Final = ASKING_SIZES | {"prim::device", "prim::requires_grad"}
_CHANGES_SHAPE: Final = frozenset(
    f"aten::{name}"
    for name in (
        "as_strided_", "detach_", "requires_grad_", "resize_", "resize_as_", "set_", "set_data",
        "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
    )
)  # fmt: skip
_TYPES: Final[dict[type, Type]] = {bool: BOOL, int: INT, float: FLOAT, str: STRING}
_STAYS: Final = (CONSTANT, "prim::ListConstruct", "prim::Loop")
_ITEMS: Final = frozenset({"aten::select.int"})
_SAME: Final = {"aten::__is__": True, "aten::__isnot__": False}
_ASKS_AUTOCAST: Final = "aten::is_autocast_enabled"


def specialize(
    graph: Block,
    method: Function,
    example: Sequence[Any],
    done: Counter[str],
    *,
    is_recurrent: bool = True,
) -> tuple[Block, SizesOf] | None:
    """Return the graph with a body for calls like the example; None where it brings nothing.

    In that body attention becomes one operator, as recurrence does where ``is_recurrent`` is set,
    and sizes are known of tensors of 32-bit floating point on the CPU.
    """
    has_sum, found = has_sums(graph), _arguments(graph, method, example)
    if not (found and _may_gain(graph, has_sum)):
        return None
    made = _with_two_bodies(graph)
    special = made.nodes[-1].blocks[0]
    facts = _Facts(made, found)
    facts.find(special)
    count = facts.put(special)
    if not (count or has_sum):
        return None
    _write_guard(made, found)
    _tidy(made, special)
    if is_recurrent:
        find_recurrence(special, done, facts.shape)
    _make_lists_first(made)
    if _frees_early(made):
        return None
    fuse_attention(special, made, facts.shape, done)
    join_views(special, facts.sizes, done)
    done["value known for calls like the example"] += count
    return made, facts.shape


def _tidy(made: Block, special: Block) -> None:
    """Remove what known values leave over: branches, questions, tuples, and parts of lists."""
    simplify(made)
    each_node(special, _remove_question)
    lower_tuples(special)
    gather_lists(made)
    simplify(made)


def _may_gain(graph: Block, has_sum: bool) -> bool:
    """Return whether a body of its own may bring something, and nothing changes what is known."""
    nodes = list(walk(graph.nodes))
    if any(map(_changes_shape, nodes)):
        return False
    return has_sum or any(map(_may_be_known, nodes))


def _changes_shape(node: Node) -> bool:
    """Return whether a node may give a tensor other sizes, as those with ``out`` do."""
    arguments = () if node.schema is None else node.schema.arguments
    has_out = any(argument.is_write and argument.kwarg_only for argument in arguments)
    return has_out or node.kind in _CHANGES_SHAPE


def _may_be_known(node: Node) -> bool:
    """Return whether a node computes what facts about arguments may tell."""
    if node.kind in _STAYS:
        return False
    return node.kind == "prim::NumToTensor" or any(value.type != TENSOR for value in node.outputs)


def _arguments(graph: Block, method: Function, example: Sequence[Any]) -> dict[Value, Any]:
    """Return what the example gives to parameters, where a guard can ask for it."""
    defaults = [argument.default for argument in method.schema.arguments[1 + len(example) :]]
    given = zip(graph.params[1:], [*example, *defaults], strict=False)
    return {param: value for param, value in given if _is_guarded(param.type, value)}


def _is_guarded(type_: Type, value: Any) -> bool:
    if type_ == TENSOR:
        is_plain = isinstance(value, Tensor) and value.layout is torch.strided
        return is_plain and not value.requires_grad
    if isinstance(type_, OptionalType):
        return value is None
    return type_ in (INT, BOOL, STRING) and type(value) in (int, bool, str)


def _with_two_bodies(graph: Block) -> Block:
    """Return a graph that has the body twice, behind a branch that always takes the first."""
    made = Block()
    values = {param: made.add_param(param.type, param.name) for param in graph.params}
    for node in graph.nodes:
        if node.kind == CONSTANT:
            copy_node(node, made, values)
    always = made.append(CONSTANT, value=True).add_output(BOOL)
    branch = made.append("prim::If", [always])
    for _ in range(2):
        copy_block(graph, branch.add_block(), dict(values))
    for value in graph.returns:
        made.add_return(branch.add_output(value.type, value.name))
    return made


def _remove_question(block: Block, node: Node) -> None:
    if node.operator in (_ASKS_AUTOCAST, "aten::is_grad_enabled") and not node.output.uses:
        remove(block, node)


def _write_guard(graph: Block, known: Mapping[Value, Any]) -> None:
    """Let the branch take its first body for arguments that are like the known ones."""
    branch = graph.nodes[-1]
    inserter = Inserter(graph, branch)
    params = dict(zip((param.name for param in graph.params), graph.params, strict=True))
    conditions = [
        condition
        for param, value in known.items()
        for condition in _conditions(inserter, params[param.name], value)
    ]
    if any(node.operator == _ASKS_AUTOCAST for node in walk(branch.blocks[1].nodes)):
        asked = inserter.operator(_ASKS_AUTOCAST, [])
        conditions.append(inserter.operator("aten::__not__", [asked]))
    branch.inputs[0].uses.clear()
    branch.inputs.clear()
    branch.add_input(all_true(inserter, conditions))


def _make_lists_first(graph: Block) -> None:
    """Let lists that a body fills be made in front of the branch, where nothing frees them."""
    branch = graph.nodes[-1]
    for body in branch.blocks:
        for node in list(body.nodes):
            if node.kind == "prim::ListConstruct" and not node.inputs:
                body.nodes.remove(node)
                graph.nodes.insert(-1, node)


def _conditions(inserter: Inserter, param: Value, value: Any) -> list[Value]:
    call, constant = inserter.operator, inserter.constant
    if value is None:
        return [call("aten::__is__", [param, constant(None)])]
    if isinstance(value, bool | int | str):
        kind = {bool: "bool", int: "int", str: "str"}[type(value)]
        return [call(f"aten::eq.{kind}", [param, constant(value)])]
    sizes = inserter.list_of(list(value.shape))
    dtype = call("prim::dtype", [param])
    device = call("prim::device", [param])
    found = [
        call("aten::eq.int_list", [call("aten::size", [param]), sizes]),
        call("aten::eq.int", [dtype, constant(number_of(value.dtype))]),
        call("aten::eq.device", [device, constant(Device(str(value.device)))]),
    ]
    if value.is_floating_point() or value.is_complex():
        grad = call("prim::requires_grad", [param])
        found.append(call("aten::__not__", [grad]))
    return found


def _frees_early(graph: Block) -> bool:
    """Return whether a body of the branch that ends a graph has a value that is freed early."""
    *before, branch = graph.nodes
    known = {*graph.params, *(value for node in before for value in node.outputs)}
    return any(_is_freed_early(block, known, set()) for block in branch.blocks)


def _is_freed_early(block: Block, outside: Set[Value], later: Set[Value]) -> bool:
    """Return whether the interpreter of torch.jit frees a value of a branch that is still needed.

    It may where a loop that carries values and something behind it take the value. ``outside`` are
    values from before the branch, ``later`` those that are needed after the block.
    """
    later = {*later, *block.returns}
    for node in reversed(block.nodes):
        taken = _taken_inside(node)
        if node.kind == "prim::Loop" and node.outputs and (taken & later) - outside:
            return True
        if any(_is_freed_early(inner, outside, later) for inner in node.blocks):
            return True
        later |= taken.union(node.inputs)
    return False


def _taken_inside(node: Node) -> set[Value]:
    """Return values that the blocks of a node take."""
    inner = list(walk([node]))
    taken = {value for each in inner[1:] for value in each.inputs}
    taken.update(value for each in inner for block in each.blocks for value in block.returns)
    return {value for value in taken if value.node.kind != CONSTANT}


class _Facts:
    """What is known of values: fake tensors, and plain values."""

    def __init__(self, graph: Block, known: Mapping[Value, Any]) -> None:
        self._mode = FakeTensorMode()
        self._graph, self._written = graph, Written(graph)
        self._facts: dict[Value, Any] = {}
        names = {param.name: value for param, value in known.items()}
        self._params = [param for param in graph.params if param.name in names]
        for param in self._params:
            value = names[param.name]
            self._facts[param] = self._fake(value) if isinstance(value, Tensor) else value
        for node in walk(graph.nodes):
            tensor = tensor_of(node.output) if node.kind == CONSTANT else None
            if tensor is not None:
                self._facts[node.output] = self._fake(tensor)

    def _fake(self, tensor: Tensor) -> Tensor:
        made: Tensor = self._mode.from_tensor(tensor.detach())
        return made

    def shape(self, value: Value) -> tuple[int, ...] | None:
        """Return the sizes of a tensor of 32-bit floating point on the CPU; None for others."""
        fact = self._of(value)
        if not isinstance(fact, Tensor) or fact.dtype is not torch.float32:
            return None
        return self.sizes(value) if fact.device.type == "cpu" else None

    def sizes(self, value: Value) -> tuple[int, ...] | None:
        """Return the sizes of a tensor; None where they are not known."""
        fact = self._of(value)
        return tuple(fact.shape) if isinstance(fact, Tensor) else None

    def find(self, block: Block) -> None:
        with self._mode:
            for node in self._graph.nodes[:-1]:
                self._node(node)
            self._block(block)

    def _block(self, block: Block) -> list[Any]:
        for node in block.nodes:
            self._node(node)
        return [self._of(value) for value in block.returns]

    def _of(self, value: Value) -> Any:
        return self._facts.get(value, _UNKNOWN)

    def _node(self, node: Node) -> None:
        given = [self._of(value) for value in node.inputs]
        for value, fact in zip(node.outputs, self._results(node, given), strict=True):
            if fact is _UNKNOWN or (_is_mutable(value.type) and self._written.may_be(value)):
                self._facts.pop(value, None)
            else:
                self._facts[value] = fact

    def _results(self, node: Node, given: list[Any]) -> list[Any]:
        unknown = [_UNKNOWN] * len(node.outputs)
        if node.kind == CONSTANT:
            return [self._constant_fact(node.output)]
        if node.operator == _ASKS_AUTOCAST:
            return [False]  # the guard asks
        if node.operator in _SAME and node.inputs[0] is node.inputs[1]:
            return [_SAME[node.operator]]
        if node.operator in _SAME and _is_one_none(*given):
            return [not _SAME[node.operator]]
        if node.kind == "prim::If":
            return self._branch(node, given[0])
        if node.kind == "prim::Loop":
            return self._loop(node)
        if node.operator in _ITEMS and given[-1] is _UNKNOWN:
            given[-1] = 0  # items of one tensor are like each other
        if any(fact is _UNKNOWN for fact in given):
            return unknown
        return self._computed(node, given, unknown)

    def _constant_fact(self, value: Value) -> Any:
        constant = value.constant
        if isinstance(constant, Device):
            return torch.device(constant.text)
        return constant if isinstance(constant, _PLAIN) else self._of(value)

    def _branch(self, node: Node, condition: Any) -> list[Any]:
        if isinstance(condition, bool):
            return self._block(node.blocks[0 if condition else 1])
        pairs = zip(*map(self._block, node.blocks), strict=True)
        return [first if _are_like(first, second) else _UNKNOWN for first, second in pairs]

    def _loop(self, node: Node) -> list[Any]:
        (body,) = node.blocks
        carried = list(carried_values(node))
        kept = [self._of(each.first) for each in carried]
        while True:
            for each, fact in zip(carried, kept, strict=True):
                self._facts[each.param] = fact
            self._facts.pop(body.params[0], None)
            last = self._block(body)[1:]
            merged = [a if _are_like(a, b) else _UNKNOWN for a, b in zip(kept, last, strict=True)]
            if list(map(id, merged)) == list(map(id, kept)):
                return kept
            kept = merged

    def _computed(self, node: Node, given: list[Any], unknown: list[Any]) -> list[Any]:
        match node.kind:
            case "prim::ListConstruct" | "prim::TupleConstruct":
                return [given if node.kind == "prim::ListConstruct" else tuple(given)]
            case "prim::ListUnpack" | "prim::TupleUnpack":
                return list(given[0])
            case "prim::DictConstruct":
                return [dict(zip(given[::2], given[1::2], strict=True))]
            case "prim::unchecked_cast":
                return given
            case "prim::NumToTensor" | "aten::ScalarImplicit" if type(given[0]) is int:
                return given  # for those who take a number
            case "prim::TupleIndex":
                return [given[0][given[1]]]
        if node.schema is None or not self._may_run(node, given):
            return unknown
        try:
            result = result_of(node, given)
        except Exception:  # it raises when it runs, or depends on the numbers
            return unknown
        results = [result] if len(node.outputs) == 1 else list(result)
        return [fact if _is_fact(fact) else _UNKNOWN for fact in results]

    def _may_run(self, node: Node, given: list[Any]) -> bool:
        if node.upgrader is not None or node.stand_in is not None or not node.inputs:
            return False
        if any(map(_is_tensor_like, given)):
            if all(
                output.type == TENSOR or output.type == ListType(TENSOR) for output in node.outputs
            ):
                return True
            is_own = node.operator in ASKING_TYPES and node.input in self._params
            return is_own or node.operator in _OF_TENSORS
        return is_pure(node)

    def put(self, block: Block) -> int:
        """Put what is known in the place of what is computed; return how often."""
        count = 0

        def visit(block: Block, node: Node) -> None:
            nonlocal count
            if node.kind in _STAYS:
                return
            inserter = Inserter(block, node)
            if node.kind == "prim::NumToTensor" and type(self._of(node.output)) is int:
                count += _give_number(node.output, inserter.constant(self._of(node.output)))
            for value in node.outputs:
                made = self._constant(value, inserter) if value.uses else None
                if made is not None:
                    replace(value, made)
                    count += 1

        each_node(block, visit)
        return count

    def _constant(self, value: Value, inserter: Inserter) -> Value | None:
        fact = self._of(value)
        if value.type == TENSOR:
            return None
        if isinstance(fact, torch.device):
            return inserter.constant(Device(str(fact)), DEVICE)
        if value.type == _TYPES.get(type(fact)):
            return inserter.constant(fact)
        if value.type == ListType(INT) and isinstance(fact, list):
            return inserter.list_of(fact) if all(type(item) is int for item in fact) else None
        return None


def _give_number(value: Value, number: Value) -> int:
    """Let those that take numbers have the number that is in a tensor; return how many they are."""
    taking = [use for use in value.uses if _takes_number(*use)]
    for user, offset in taking:
        set_input(user, offset, number)
    return len(taking)


def _takes_number(user: Node, offset: int) -> bool:
    return user.schema is not None and user.schema.arguments[offset].type == NUMBER


def _is_mutable(type_: Type) -> bool:
    return isinstance(type_, ListType | DictType) or any(map(_is_mutable, type_.parts()))


def _is_fact(result: Any) -> bool:
    if isinstance(result, list | tuple):
        return all(map(_is_fact, result))
    return isinstance(result, (Tensor, *_PLAIN))


def _is_one_none(first: Any, second: Any) -> bool:
    """Return whether one of two values is None, and the other is known to be none."""
    return (first is None) is not (second is None) and not (first is _UNKNOWN or second is _UNKNOWN)


def _is_tensor_like(fact: Any) -> bool:
    if isinstance(fact, list | tuple):
        return any(map(_is_tensor_like, fact))
    return isinstance(fact, Tensor)


def _are_like(first: Any, second: Any) -> bool:
    """Return whether no question to one of two values has another answer for the other."""
    if first is _UNKNOWN or second is _UNKNOWN or type(first) is not type(second):
        return False
    if isinstance(first, Tensor):
        return _traits(first) == _traits(second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_are_like, first, second))
    return isinstance(first, _PLAIN) and bool(first == second)


def _traits(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.device, tensor.requires_grad
