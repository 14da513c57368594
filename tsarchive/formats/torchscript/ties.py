"""What ties the code of an archive to one device, size, dtype, folder or run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tsarchive.analyses.reading import ReadCode
from tsarchive.analyses.sizes import Baked, Dim, Sized, baked_sizes
from tsarchive.errors import ArchiveError
from tsarchive.formats.compatibility import Tie
from tsarchive.frontend.places import CodePlace
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.constants import Device
from tsarchive.ir.graph import Node, Value
from tsarchive.operators.risks import Risk, row_of
from tsarchive.pickler import Object, Reduce, loads

from .pickled import MAX_DEPTH, devices_in, reachable
from .stored_tensors import (
    DenseTensor,
    QuantizedTensor,
    StoredTensors,
    Wrapped,
    is_tensor,
    plain_tensor,
)

_DATA: Final = "data.pkl"
_INPUTS: Final = "traced_inputs.pkl"
_CPU: Final = "cpu"
_PATH: Final = re.compile(r"(?:/[\w.+@~-]+){2,}/?|[A-Za-z]:[\\/][^\n\0]+|\\\\\w[^\n\0]+")
# Whether these draw random numbers is for an argument to say.
_TRAINING: Final = ("train", "training")
# Operators that move to the device that they are named after.
_MOVES: Final = {"aten::cuda": "cuda", "aten::cpu": "cpu"}
_OURS: Final = "__torch__."
_DEEPEST_CALL: Final = 8
_FLOATS: Final = {5: "float16", 6: "float32", 7: "float64", 15: "bfloat16"}

_MOVE: Final = (
    "tsarchive.load with map_location moves the devices in code, too; tsarchive.save keeps that"
)
_REMEDIES: Final = {
    "device": _MOVE,
    "size": "Trace with sizes taken from the input (x.shape[0], -1, flatten), or script the module",
    "random": "Call torch.manual_seed before each run that has to give the same",
    "path": "Give the file as an input, or keep its contents in the archive",
    "dtype": "Take the dtype from the input in the source (x.dtype, x.new_zeros), and trace again",
}


def ties_of(code: ReadCode, pickles: Mapping[str, bytes]) -> tuple[Tie, ...]:
    """Return what ties an archive to one place, each once with its first place."""
    found = [*_stored(pickles), *_in_code(code), *_sizes(code, pickles)]
    counts: dict[tuple[str, str], list[Tie]] = {}
    for tie in found:
        counts.setdefault((tie.kind, tie.text), []).append(tie)
    return tuple(_counted(ties) for ties in counts.values())


def _counted(ties: list[Tie]) -> Tie:
    first = ties[0]
    place = (first.record, first.line, first.code, first.source)
    return Tie(first.kind, first.text, first.remedy, *place, len(ties))


def _tie(kind: str, text: str, record: str = "", node: Node | None = None) -> Tie:
    place = node.place if node is not None else None
    if not isinstance(place, CodePlace):
        return Tie(kind, text, _REMEDIES[kind], record)
    where = (place.record, place.line, place.text, place.origin)
    return Tie(kind, text, _REMEDIES[kind], *where)


# Values


def _stored(pickles: Mapping[str, bytes]) -> Iterator[Tie]:
    for record, data in pickles.items():
        root = loads(data, record=record)
        for device in dict.fromkeys(devices_in(root)):
            if record != _INPUTS and device != _CPU:
                remedy = f'torch.jit.load(..., map_location="{_CPU}") moves them'
                yield Tie("device", f"tensors or values are on {device}", remedy, record)
        for text in dict.fromkeys(_texts(root)):
            if _PATH.fullmatch(text):
                yield _tie("path", f"the path {text} is a value", record)


def _texts(root: Any) -> Iterator[str]:
    """Yield the strings among values; names of attributes are none."""
    for value in reachable(root):
        match value:
            case Object(state=dict() as state):
                inside: Iterable[Any] = state.values()
            case dict():
                inside = (*value, *value.values())
            case list() | tuple():
                inside = value
            case _:
                continue
        yield from (part for part in inside if isinstance(part, str))


# Code


def _in_code(code: ReadCode) -> Iterator[Tie]:
    drawing = _Drawing(code)
    for function, record in code.functions:
        for node in code.nodes(function):
            yield from _of_constants(node, record)
            if node.schema is not None:
                yield from _of_operator(node, record)
            elif node.kind == "prim::CallFunction":
                yield from drawing.of_call(node, record)


def _of_constants(node: Node, record: str) -> Iterator[Tie]:
    for value in node.inputs:
        if not value.node.is_constant:
            continue
        match value.node.attributes["value"]:
            case Device(text):
                yield _of_device(text, record, node)
            case str(text) if node.kind == "aten::device":
                yield _of_device(text, record, node)
            case str(text) if _PATH.fullmatch(text):
                yield _tie("path", f"the path {text} stands in code", record, node)


def _of_device(device: str, record: str, node: Node) -> Tie:
    """Return the tie of code to a device, which may be where the model was when it was traced."""
    if device == _CPU:
        return _tie("device", "code names the CPU, wherever the model is", record, node)
    return _tie("device", f"code names {device}", record, node)


def _of_operator(node: Node, record: str) -> Iterator[Tie]:
    given = _arguments(node)
    if node.kind in _MOVES:
        yield _of_device(_MOVES[node.kind], record, node)
    if row_of(node.operator).risk is Risk.RANDOMNESS and all(map(_is_true, _flags(node))):
        yield _tie("random", f"{node.kind} draws random numbers", record, node)
    dtype = given.get("dtype")
    if dtype is not None and dtype.node.is_constant and type(dtype.constant) is int:
        name = _FLOATS.get(dtype.constant)
        if name is not None:
            text = f"{node.kind} gives {name}, whatever the dtype of the model is"
            yield _tie("dtype", text, record, node)


def _arguments(node: Node) -> dict[str, Value]:
    """Return the inputs of an operator by the names of its arguments."""
    assert node.schema is not None
    names = [argument.name for argument in node.schema.arguments]
    return dict(zip(names, node.inputs, strict=False))


def _flags(node: Node) -> list[Value]:
    """Return the arguments that tell whether an operator draws random numbers."""
    given = _arguments(node)
    return [given[name] for name in _TRAINING if name in given]


def _is_true(value: Value) -> bool:
    return value.node.is_constant and value.constant is True


class _Drawing:
    """Tells which functions, such as F.dropout, draw random numbers where an argument says so."""

    def __init__(self, code: ReadCode) -> None:
        self._code = code
        self._deciding: dict[Function, frozenset[Value]] = {}

    def of_call(self, node: Node, record: str) -> Iterator[Tie]:
        """Yield the tie of a call that says so."""
        if any(map(_is_true, self._flags(node, 0))):
            name = node.inputs[0].constant.qualified_name.removeprefix(_OURS)
            yield _tie("random", f"{name} draws random numbers", record, node)

    def _flags(self, node: Node, depth: int) -> list[Value]:
        """Return the inputs of a node that tell whether it draws random numbers."""
        if node.schema is not None:
            return _flags(node) if row_of(node.operator).risk is Risk.RANDOMNESS else []
        called = node.inputs[0] if node.kind == "prim::CallFunction" else None
        if called is None or not called.node.is_constant or depth > _DEEPEST_CALL:
            return []
        function = called.constant
        if not isinstance(function, Function):
            return []
        deciding = self._parameters(function, depth)
        pairs = zip(function.graph.params, node.inputs[1:], strict=False)
        return [value for parameter, value in pairs if parameter in deciding]

    def _parameters(self, function: Function, depth: int) -> frozenset[Value]:
        if function not in self._deciding:
            nodes = self._code.nodes(function)
            flags = {flag for node in nodes for flag in self._flags(node, depth + 1)}
            self._deciding[function] = frozenset(flags.intersection(function.graph.params))
        return self._deciding[function]


# Sizes


@dataclass(frozen=True, slots=True)
class _Pickled:
    """An object of data.pkl, whose attributes are read when they are asked for."""

    values: _Values
    value: Object

    @property
    def class_(self) -> ClassType:
        found = self.values.code.class_named(self.value.cls.qualified_name)
        return found if isinstance(found, ClassType) else ClassType("")

    def attribute(self, name: str) -> Any:
        state = self.value.state
        return self.values.known(state.get(name)) if isinstance(state, dict) else None


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of one pickle as far as sizes follow from them."""

    code: ReadCode
    record: str

    def known(self, value: Any, depth: int = 0) -> Any:
        """Return an object, the sizes of a tensor, or a plain value; None for others."""
        match value:
            case Object():
                return _Pickled(self, value)
            case bool() | int() | float() | str():
                return value
            case list() | tuple() if depth < MAX_DEPTH:
                return type(value)(self.known(item, depth + 1) for item in value)
            case Reduce() if is_tensor(value):
                return self._sized(value)
            case Reduce(argument=(list() | dict() as content, *_)):
                return self.known(content, depth + 1)
        return None

    def _sized(self, value: Reduce) -> Sized | None:
        stored = StoredTensors(self.record)
        found = stored.tensor(plain_tensor(value, self.record))
        if isinstance(found, Wrapped):
            found = stored.tensor(found.tensor)
        if not isinstance(found, DenseTensor | QuantizedTensor):
            return None
        return Sized(tuple(map(Dim, found.view.size)))


def _sizes(code: ReadCode, pickles: Mapping[str, bytes]) -> Iterator[Tie]:
    """Yield the sizes that tracing baked in, for methods with example inputs."""
    if _INPUTS not in pickles:
        return
    root = loads(pickles[_DATA], record=_DATA)
    if not isinstance(root, Object):
        return
    instance = _Pickled(_Values(code, _DATA), root)
    table = _Values(code, "constants.pkl")
    for method, inputs in _examples(loads(pickles[_INPUTS], record=_INPUTS)):
        function = instance.class_.methods.get(method)
        if function is None:
            continue
        known = _Values(code, _INPUTS).known(inputs)
        try:
            found = baked_sizes(instance, function, known, table.known)
        except ArchiveError:
            continue  # of a fault that rows tell
        yield from map(_of_size, found)


def _examples(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield methods and example inputs, the object itself aside."""
    match root:
        case Reduce(argument=(dict() as content, str())):
            for method, inputs in content.items():
                match inputs:
                    case Reduce(argument=(list() as items, str())):
                        yield method, items
                    case list() as items:
                        yield method, items


def _of_size(baked: Baked) -> Tie:
    dimensions = " and ".join(baked.dimensions)
    constants = " and ".join(map(str, baked.constants))
    alone = len(baked.constants) == 1
    what = f"the constant {constants} stands" if alone else f"the constants {constants} stand"
    return _tie("size", f"{what} for {dimensions}", "", baked.node)
