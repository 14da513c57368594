"""Loading of a PT2 archive as a module, on the device that it was exported on or another.

Tensors are views of the mapped file, private to this process.

The module is called as torch calls the program: structures of arguments must be those that it was
exported with; keys of dicts may come in any order, and positional arguments may be named. Named
tuples, deques, ordered and default dicts, and objects of classes that are registered with torch's
pytrees in this process are converted to the lists, dicts and tuples of code and back. Nothing is
imported because a file names it.
"""

from __future__ import annotations

import builtins
import inspect
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from tsarchive.container import Container
from tsarchive.errors import (
    CallError,
    FormatError,
    LimitError,
    MissingRecordError,
    PickleError,
    UnknownClassError,
    UnsupportedError,
)
from tsarchive.formats.torchscript.devices import DeviceMap
from tsarchive.formats.torchscript.importer import Unpickling
from tsarchive.formats.torchscript.pickled import MAX_DEPTH
from tsarchive.formats.torchscript.stored_tensors import is_device
from tsarchive.formats.torchscript.tensors import (
    TensorReader,
    move_tensor,
    parse_device,
    tensor_over,
    without_warnings,
)
from tsarchive.ir.classes import ClassType
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING, TENSOR, NamedType, Type, annotation
from tsarchive.operators.libraries import what_registers
from tsarchive.pickler import Object, Reduce, Value
from tsarchive.policy import FOR_STRANGERS, Guard
from tsarchive.run.calls_from_python import PublicMethod, as_it_is, public_by
from tsarchive.run.calls_from_python import Signature as CallSignature
from tsarchive.run.classes import Classes
from tsarchive.run.compiler import Compiler
from tsarchive.run.objects import ClassTable, new_object
from tsarchive.run.operators import native_class, operator_schemas
from tsarchive.run.slots import set_slot
from tsarchive.strict_json import parse_text

from . import schema
from .metadata import nodes_of, places
from .payloads import Kind as PayloadKind
from .payloads import Payload, PickledPayload, Saved, StoredView, saved_payload, stored_payloads
from .program import Forward
from .pytrees import FACTORIES, MAPPINGS, Kind, Tree
from .records import FLAT_STATES, USUAL_NAME, Records
from .signature import (
    TRAINING,
    Module,
    NamedTuples,
    State,
    StateKind,
    TypedTree,
    module_of,
    read_signature,
)

if TYPE_CHECKING:
    from tsarchive.formats.awaited import AwaitedStorages
    from tsarchive.run.modules import ArchiveModule

# Tensors without data are zeros. Their bytes are not in the file, so a small file could otherwise
# ask for any amount of memory.
MAX_ZEROS = 1 << 33
_WARNED_OF = frozenset({schema.ScalarType.COMPLEXHALF})
_NOTHING = nullcontext()
_IN_TABLES = frozenset({StateKind.PARAMETER, StateKind.BUFFER})


class Tensors:
    """Builds the tensors of one model; those of one storage share it.

    ``views`` are all that may be built. ``device`` replaces the stored device of every tensor that
    is not on the meta device. ``later`` has the memory of storages, by their names, whose bytes
    need not be there yet. Raises LimitError when those without data are too large.
    """

    def __init__(
        self,
        views: Iterable[StoredView],
        device: torch.device | None,
        later: Mapping[str, memoryview] = MappingProxyType({}),
    ) -> None:
        self._device = device
        self._later = later
        self._storages: dict[tuple[str, str], torch.UntypedStorage] = {}
        self._zeros: dict[str, int] = {}
        for view in views:
            if not view.has_data and self._target(view).type != "meta":
                needed = max(self._zeros.get(view.storage.name, 0), _reach(view))
                self._zeros[view.storage.name] = needed
        if sum(self._zeros.values()) > MAX_ZEROS:
            raise LimitError(
                "tensors without data, which are zeros, would take too much memory",
                limit=MAX_ZEROS,
                hint="Load with map_location='meta'",
            )

    def build(self, view: StoredView) -> torch.Tensor:
        """Return the tensor. Raises UnsupportedError where this process lacks its device."""
        with without_warnings() if view.dtype in _WARNED_OF else _NOTHING:
            dtype = self._dtype(view)
            target = self._target(view)
            key = view.storage.name, str(target)
            storage = self._storages.get(key)
            if storage is None:
                storage = self._storages[key] = self._storage(view, dtype, target)
            made = torch.empty(0, dtype=dtype, device=storage.device)
            return made.set_(storage, view.offset, view.shape, view.strides)

    def _target(self, view: StoredView) -> torch.device:
        found = _target(view, self._device)
        if found is None:
            raise FormatError(f"unknown device {view.device!r}", record=view.storage.name)
        return found

    def _dtype(self, view: StoredView) -> torch.dtype:
        name = schema.DTYPES[view.dtype].dtype
        found = getattr(torch, name, None)
        if not isinstance(found, torch.dtype):
            raise UnsupportedError(f"this torch has no dtype {name}", record=view.storage.name)
        return found

    def _storage(
        self, view: StoredView, dtype: torch.dtype, target: torch.device
    ) -> torch.UntypedStorage:
        if target.type == "meta":
            nbytes = max(view.storage.nbytes, _reach(view))
            return torch.empty(nbytes, dtype=torch.uint8, device="meta").untyped_storage()
        elements = view.storage.nbytes // dtype.itemsize
        if not view.has_data:
            made = torch.zeros(self._zeros[view.storage.name], dtype=torch.uint8)
        elif elements:
            data = self._later.get(view.storage.name)
            made = tensor_over(view.storage.data() if data is None else data, elements, dtype)
        else:
            made = torch.empty(0, dtype=dtype)
        if target.type != "cpu":
            made = move_tensor(made, target, view.storage.name)
        return made.untyped_storage()


def _target(view: StoredView, given: torch.device | None) -> torch.device | None:
    """Return the device that a tensor goes to, ``given`` or its own; None for an unknown one."""
    stored = parse_device(view.device)
    if stored is None:
        return None
    return stored if given is None or stored.type == "meta" else given


def _reach(view: StoredView) -> int:
    """Return the size in bytes that a storage must have to hold all elements."""
    if not prod(view.shape):
        return 0
    last = sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
    return (view.offset + last + 1) * schema.DTYPES[view.dtype].itemsize


Call = tuple[tuple[Any, ...], dict[str, Any]]


def sample_values(records: Records, model: str) -> Call | None:
    """Return positional and keyword arguments; None without example inputs, or with objects.

    Raises PickleError for pickles that the restricted reader does not take, TensorError for
    tensors that break a rule, FormatError and MissingRecordError for a damaged record.
    """
    record = records.inputs_record(model)
    if not records.container.size(record):
        return None
    saved = Saved(records.container, record)
    calls: list[Reduce] = []
    _replaced(saved.root, calls.append)
    views = {id(value): saved_payload(saved, value) for value in calls}
    if not all(isinstance(view, StoredView) for view in views.values()):
        return None
    dense = {key: view for key, view in views.items() if isinstance(view, StoredView)}
    tensors = Tensors(dense.values(), None)
    made = {key: tensors.build(view) for key, view in dense.items()}
    match _replaced(saved.root, lambda value: made[id(value)]):
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), kwargs
    return None


def _replaced(value: Value, replace: Callable[[Reduce], Any], depth: int = 0) -> Any:
    """Return a nested value with its tensors replaced."""
    if depth > MAX_DEPTH:
        raise PickleError("values are nested too deeply", limit=MAX_DEPTH)
    match value:
        case Reduce():
            return replace(value)
        case tuple():
            return tuple(_replaced(item, replace, depth + 1) for item in value)
        case list():
            return [_replaced(item, replace, depth + 1) for item in value]
        case dict():
            return {key: _replaced(item, replace, depth + 1) for key, item in value.items()}
    return value


Convert = Callable[[Any], Any]

_CLASSES: Mapping[Kind, tuple[type, ...]] = {
    # torch treats the second ones like their base classes.
    Kind.TUPLE: (tuple, torch.Size),
    Kind.LIST: (list, torch.fx.immutable_collections.immutable_list),
    Kind.DICT: (dict, torch.fx.immutable_collections.immutable_dict),
    Kind.ORDERED_DICT: (OrderedDict,),
    Kind.DEFAULT_DICT: (defaultdict,),
    Kind.DEQUE: (deque,),
}
_FACTORIES: Mapping[str | None, Any] = {
    None: None,
    **{name: getattr(builtins, name) for name in FACTORIES},
}
_SCALARS: Mapping[Type, tuple[type, ...]] = {
    TENSOR: (torch.Tensor,),
    INT: (int, torch.SymInt),
    FLOAT: (float, int, torch.SymFloat, torch.SymInt),
    BOOL: (bool, torch.SymBool),
    STRING: (str,),
    NONE: (type(None),),
}


def argument_converter(typed: TypedTree, place: str, table: ClassTable) -> Convert:
    """Return a converter from an argument to a value of code; ``place`` names it in errors.

    The converter raises CallError for values of another structure or type.
    """
    tree = typed.tree
    if tree.kind is Kind.LEAF:
        return _leaf(typed.type, place)
    inner = [argument_converter(child, step, table) for step, child in typed.places(place)]
    make_items = _MAKE_ITEMS.get(tree.kind, _sequence_of)
    items = make_items(tree, place)  # in the order of the tree
    if tree.kind in MAPPINGS:
        keys = tree.keys
        return lambda value: dict(zip(keys, _convert(inner, items(value)), strict=True))
    if tree.kind in (Kind.LIST, Kind.DEQUE):
        return lambda value: _convert(inner, items(value))
    if tree.kind is Kind.NAMED_TUPLE:
        make = table.python_class(typed.type)
        return lambda value: make(*_convert(inner, items(value)))
    return lambda value: tuple(_convert(inner, items(value)))


def _convert(converters: list[Convert], items: Any) -> list[Any]:
    return [convert(item) for convert, item in zip(converters, items, strict=True)]


def _leaf(type_: Type, place: str) -> Convert:
    allowed = _SCALARS.get(type_, (torch.ScriptObject,))
    refused: tuple[type, ...] = (bool,) if type_ in (INT, FLOAT) else ()
    is_float = type_ == FLOAT
    wanted = annotation(type_)

    def convert(value: Any) -> Any:
        if not isinstance(value, allowed) or isinstance(value, refused):
            raise CallError(f"forward() expects {wanted} for {place}, not {_kind(value)}")
        return float(value) if is_float and type(value) is int else value

    return convert


def _kind(value: Any) -> str:
    return str(type(value).__name__)


def _sequence_of(tree: Tree, place: str) -> Convert:
    classes, count, what = _CLASSES[tree.kind], len(tree.children), tree.kind.value
    is_deque, most = tree.kind is Kind.DEQUE, tree.context

    def items(value: Any) -> Any:
        if type(value) not in classes:
            raise CallError(f"forward() expects {what} for {place}, not {_kind(value)}")
        if len(value) != count:
            raise CallError(f"forward() expects {count} items in {place}, not {len(value)}")
        if is_deque and value.maxlen != most:
            raise CallError(f"forward() expects a deque of maxlen {most} for {place}")
        return value

    return items


def _values_of(tree: Tree, place: str) -> Convert:
    classes, keys, what = _CLASSES[tree.kind], tree.keys, tree.kind.value
    is_default, factory = tree.kind is Kind.DEFAULT_DICT, _FACTORIES[tree.context]
    # torch ignores the order of keys only for plain dicts.
    has_order = tree.kind is not Kind.DICT

    def items(value: Any) -> Any:
        if type(value) not in classes:
            raise CallError(f"forward() expects {what} for {place}, not {_kind(value)}")
        if len(value) != len(keys) or not all(key in value for key in keys):
            raise CallError(
                f"forward() expects the keys {list(keys)} in {place}, not {list(value)}"
            )
        if has_order and tuple(value) != keys:
            raise CallError(
                f"forward() expects the keys {list(keys)} in {place} in this order, "
                f"not {list(value)}"
            )
        if is_default and value.default_factory is not factory:
            raise CallError(f"forward() expects a defaultdict of {factory} for {place}")
        return [value[key] for key in keys]

    return items


def _fields_of(tree: Tree, place: str) -> Convert:
    """Return a check for a named tuple of the registered class, or with the same fields."""
    registered, fields, count = _registered(tree.name), tree.fields, len(tree.children)
    what = f"the fields {', '.join(fields)}" if fields else f"{count} fields"

    def items(value: Any) -> Any:
        own = getattr(value, "_fields", None)
        is_one = isinstance(value, tuple) and len(value) == count and own is not None
        # Older programs do not store the fields.
        if is_one and (type(value) is registered or not fields or own == fields):
            return value
        raise CallError(
            f"forward() expects a named tuple {tree.name} with {what} for {place}, "
            f"not {_kind(value)}"
        )

    return items


# Classes registered with torch's pytrees in this process


def _registered(name: str | None) -> type | None:
    found = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name or "")
    return found if isinstance(found, type) else None


def _required(tree: Tree) -> type:
    found = _registered(tree.name)
    if found is None:
        raise UnsupportedError(
            f"the program takes or gives objects of {tree.name}, which is not registered",
            hint="Import what registers it with torch.utils._pytree under that name first",
        )
    return found


def _flattened(tree: Tree, place: str, value: Any) -> Any:
    class_ = _required(tree)
    if type(value) is not class_:
        raise CallError(f"forward() expects {tree.name} for {place}, not {_kind(value)}")
    children, context = pytree.SUPPORTED_NODES[class_].flatten_fn(value)
    if context != _context(tree, class_) or len(children) != len(tree.children):
        raise CallError(
            f"forward() expects {tree.name} for {place} of the form that it had when the program "
            "was exported"
        )
    return children


def _context(tree: Tree, class_: type) -> Any:
    """Let the class decode its serialized context, which is JSON by default."""
    read = pytree.SUPPORTED_SERIALIZED_TYPES[class_].from_dumpable_context
    if read is not None:
        return read(tree.context)
    return parse_text(str(tree.context), "", f"the context of {tree.name}")


_MAKE_ITEMS: Mapping[Kind, Callable[[Tree, str], Convert]] = {
    **dict.fromkeys(MAPPINGS, _values_of),
    Kind.NAMED_TUPLE: _fields_of,
    Kind.REGISTERED: lambda tree, place: partial(_flattened, tree, place),
}


# Results


def result_converter(typed: TypedTree) -> Convert | None:
    """Return a converter from a result of code to that of the user's module; None if equal."""
    tree = typed.tree
    if tree.kind is Kind.LEAF:
        return None
    inner = [result_converter(child) or as_it_is for child in typed.children]
    if tree.kind is Kind.NAMED_TUPLE:
        return lambda value: (_registered(tree.name) or type(value))(*_convert(inner, value))
    make = _maker(tree)
    if tree.kind in MAPPINGS:
        keys = tree.keys
        return lambda value: make(zip(keys, _convert(inner, value.values()), strict=True))
    return lambda value: make(_convert(inner, value))


def _maker(tree: Tree) -> Convert:
    """Return what makes the container of a result from its items."""
    match tree.kind:
        case Kind.LIST:
            return as_it_is
        case Kind.DEQUE:
            return partial(deque, maxlen=tree.context)
        case Kind.DEFAULT_DICT:
            return partial(defaultdict, _FACTORIES[tree.context])
        case Kind.REGISTERED:
            return partial(_unflattened, tree)
    return _CLASSES[tree.kind][0]


def _unflattened(tree: Tree, items: list[Any]) -> Any:
    class_ = _required(tree)
    return pytree.SUPPORTED_NODES[class_].unflatten_fn(items, _context(tree, class_))


class ForwardMethod(PublicMethod):
    """``forward`` of the root of a program, for callers in Python."""

    def __init__(self, forward: Forward, compiler: Compiler) -> None:
        super().__init__(forward.module.type.methods["forward"], compiler)
        self._forward = forward

    def _made(self) -> Any:
        convention = _Convention(self._forward, self._compiler)
        finish = result_converter(self._forward.result) or as_it_is
        return public_by(self._function, self._compiler, convention, finish)


class _Convention(CallSignature):
    """Binds positional arguments, which may be named, and keyword-only ones."""

    def __init__(self, forward: Forward, compiler: Compiler) -> None:
        declared = forward.module.type.methods["forward"].schema
        super().__init__("forward", declared, compiler, is_method=True)
        parameters = forward.signature.parameters
        self._names = [parameter.name for parameter in parameters]
        self._are_keywords = [parameter.is_keyword for parameter in parameters]
        self._positional = self._are_keywords.count(False)
        self._given = [
            argument_converter(typed, parameter.name, compiler.linkage.table)
            for typed, parameter in zip(forward.parameters, parameters, strict=True)
        ]

    def bind(self, given: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """Return the arguments in the order that the code of the program takes.

        Raises CallError for missing, surplus and unknown arguments, and for those of another
        structure or type than the program was exported with.
        """
        if len(given) > self._positional:
            raise CallError(
                f"forward() takes {self._positional} positional arguments, {len(given)} were given"
            )
        for name in keywords:
            if name not in self._names:
                raise CallError(f"forward() has no argument {name!r}")
            if name in self._names[: len(given)]:
                raise CallError(f"forward() was given the argument {name!r} twice")
        for name in self._names[len(given) :]:
            if name not in keywords:
                raise CallError(f"forward() is missing the argument {name!r}")
        found = [*given, *(keywords[name] for name in self._names[len(given) :])]
        return [convert(value) for convert, value in zip(self._given, found, strict=True)]

    def shown(self) -> inspect.Signature:
        shown = super().shown()
        own, *others = shown.parameters.values()
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) if is_keyword else parameter
            for parameter, is_keyword in zip(others, self._are_keywords, strict=True)
        ]
        return shown.replace(parameters=[own, *parameters])


_HOST, _NOWHERE = "cpu", "meta"


def _moved(program: schema.ExportedProgram, target: str) -> schema.ExportedProgram:
    """Return the program with the devices that its nodes name moved to ``target``.

    Where everything is on the CPU, that is merely where the program was exported, and the CPU is
    moved as well.
    """
    graph = program.graph_module.graph
    named = set(map(schema.device_name, _devices(graph)))
    on_others = any(name.partition(":")[0] not in (_HOST, _NOWHERE) for name in named)
    kind = target.partition(":")[0]
    devices = DeviceMap(target, keeps_cpu=on_others and kind not in (_HOST, _NOWHERE))
    moved = replace(program.graph_module, graph=_move_graph(graph, devices))
    return replace(program, graph_module=moved)


def _devices(graph: schema.Graph) -> Iterator[schema.Device]:
    """Yield the devices of the tensors of a graph, and those that nodes name."""
    yield from (meta.device for meta in graph.tensor_values.values())
    for node in nodes_of(graph):
        yield from (input_.arg.value for input_ in node.inputs if input_.arg.tag == "as_device")


def _move_graph(graph: schema.Graph, devices: DeviceMap) -> schema.Graph:
    nodes = [
        replace(node, inputs=[_move_input(input_, devices) for input_ in node.inputs])
        for node in graph.nodes
    ]
    return replace(graph, nodes=nodes)


def _move_input(input_: schema.NamedArgument, devices: DeviceMap) -> schema.NamedArgument:
    value = input_.arg.value
    match input_.arg.tag:
        case "as_device":
            if not is_device(name := schema.device_name(value)):
                return input_
            kind, _, index = devices.moved(name).partition(":")
            value = schema.Device(kind, int(index) if index else None)
        case "as_graph":
            value = replace(value, graph=_move_graph(value.graph, devices))
        case _:
            return input_
    return replace(input_, arg=schema.Argument(input_.arg.tag, value))


class Pt2Importer:
    """Loads one model of an archive; its container stays open while tensors live.

    Raises MissingRecordError when there is no such model, CallError when there are several and none
    is named, UnsupportedError for a file that holds only compiled code.
    """

    def __init__(
        self,
        container: Container,
        device: torch.device | None,
        guard: Guard = FOR_STRANGERS,
        model: str | None = None,
        *,
        lazy: bool = False,
    ) -> None:
        self._awaited: AwaitedStorages | None = None
        if lazy and container.is_elsewhere:
            from tsarchive.formats.awaited import AwaitedStorages  # most files are not elsewhere

            self._awaited = AwaitedStorages()
        self.container = container
        self.device = device
        self.records = Records(container)
        self.model = _chosen(self.records, model)
        self.record = self.records.program_record(self.model)
        program = self.records.program(self.model)
        self.program = program if device is None else _moved(program, str(device))
        self.classes = Classes(container, guard)
        self.code = _Types()
        self.signature = read_signature(self.program.graph_module, self.record, _class_of)
        self._module = self._classes_made()

    def _classes_made(self) -> Module:
        signature, named = self.signature, self.code.named_tuples
        objects = [state for state in signature.states if state.kind is StateKind.CUSTOM_OBJ]
        types = {state.target: _class_of(state.class_fqn or "") for state in objects}
        parameters = signature.typed_parameters(named)
        result = signature.typed_result(named)
        class_names = {
            place.path: place.class_name for place in places(self.program.graph_module.graph)
        }
        module = module_of(signature.states, types, class_names, named.names, self.record)
        forward = Forward(
            self.program, signature, parameters, result, module, operator_schemas, self.record
        )
        module.type.methods["forward"] = forward.function()
        self.code.add(module)
        class_ = self.classes.table.python_class(module.type)
        class_.tsarchive_program = forward
        ForwardMethod(forward, self.classes.compiler).place(class_, "forward")
        return module

    def load(self) -> ArchiveModule:
        """Return the module. Raises ArchiveError where a record breaks a rule of the format."""
        stored = {
            folder: stored_payloads(self.records, folder, self.model) for folder in FLAT_STATES
        }
        views = {state.target: self._view(state, stored) for state in self.signature.states}
        dense = {name: view for name, view in views.items() if isinstance(view, StoredView)}
        later = {} if self._awaited is None else self._later(dense, self._awaited)
        if self.container.is_elsewhere:
            from tsarchive.formats.awaited import fetch

            needed = (v.storage for v in dense.values() if self._device_type(v) != "meta")
            fetch(storage.place for storage in needed if storage.name not in later)
        built = self._built(self._module, views, Tensors(dense.values(), self.device, later))
        if self._awaited is not None:
            self._awaited.name_after(built)
        return built  # type: ignore[no-any-return]

    def _device_type(self, view: StoredView) -> str:
        """Return the kind of device that a tensor goes to, empty where there is none such."""
        device = _target(view, self.device)
        return "" if device is None else device.type

    def _later(
        self, views: Mapping[str, StoredView], awaited: AwaitedStorages
    ) -> dict[str, memoryview]:
        """Return the memory of storages that only tables of modules hold, by their names."""
        found: dict[str, memoryview] = {}
        now: set[str] = set()
        for state in self.signature.states:
            view = views.get(state.target)
            if view is None:
                continue
            is_on_cpu = self._device_type(view) == "cpu"
            if state.kind in _IN_TABLES and is_on_cpu and view.has_data:
                place = awaited.memory(*view.storage.place)
                if place is not None:
                    found[view.storage.name] = place
            else:
                now.add(view.storage.name)
        return {name: place for name, place in found.items() if name not in now}

    def _view(self, state: State, stored: Mapping[str, Mapping[str, Payload]]) -> Payload:
        """Return the payload of a state."""
        found = stored[state.folder].get(state.target)
        if found is None:
            raise MissingRecordError(
                f"the archive does not hold the {state.kind.value} {state.target!r}",
                record=self.record,
                hint="torch did not write it: export the model again, or save it without it",
            )
        return found

    def _built(self, module: Module, views: Mapping[str, Payload], tensors: Tensors) -> Any:
        built = new_object(self.classes.table.python_class(module.type))
        slots = module.type.attributes
        set_slot(built, slots[TRAINING.name], True)
        for name, state in module.states.items():
            set_slot(built, slots[name], self._value(state, views[state.target], tensors))
            if state.kind is StateKind.BUFFER and not state.is_persistent:
                built._non_persistent_buffers_set.add(name)
        for name, child in module.children.items():
            set_slot(built, slots[name], self._built(child, views, tensors))
        if self._awaited is not None:
            self._awaited.defer(built)
        return built

    def _value(self, state: State, payload: Payload, tensors: Tensors) -> Any:
        if isinstance(payload, PickledPayload):
            if state.kind is StateKind.CUSTOM_OBJ and payload.kind is PayloadKind.CUSTOM_OBJECT:
                return self._object(state, payload)
            raise _refused(state, payload)
        if state.kind is StateKind.CUSTOM_OBJ:
            message = f"{state.target!r} is a tensor where an object is expected"
            raise UnsupportedError(message, record=self.record)
        made = tensors.build(payload)
        needs_grad = state.kind is StateKind.PARAMETER and payload.requires_grad
        return made.requires_grad_() if needs_grad else made

    def _object(self, state: State, payload: PickledPayload) -> Any:
        """Restore an object of a class bound from C++ from its pickled state."""
        saved = Saved(self.container, payload.record)
        if not isinstance(saved.root, Object):
            raise _refused(state, payload)
        inside = saved.container
        tensors = TensorReader(
            lambda key: inside.view(f"data/{key}"),
            self.device,
            payload.record,
            lambda key: inside.size(f"data/{key}"),
        )
        return Unpickling(self, tensors, payload.record).value(saved.root)


class _Types:
    """The named types of one program by name, as code of an archive would define them."""

    def __init__(self) -> None:
        self.named_tuples = NamedTuples()
        self._classes: dict[str, ClassType] = {}

    def add(self, module: Module) -> None:
        self._classes[module.type.qualified_name] = module.type
        for child in module.children.values():
            self.add(child)

    def find(self, qualified_name: str) -> NamedType | None:
        """Return the class or named tuple of that name; None when there is none."""
        found = self._classes.get(qualified_name) or self.named_tuples.find(qualified_name)
        return found or native_class(qualified_name)


def _class_of(name: str) -> Type:
    """Return a class bound from C++.

    Raises UnknownClassError for an unregistered class, UnsupportedError for a Python class such as
    torch.Generator.
    """
    qualified = name if name.startswith(NATIVE_PREFIX) else NATIVE_PREFIX + name
    found = native_class(qualified)
    if found is None and not name.startswith(NATIVE_PREFIX):
        raise UnsupportedError(
            f"the program is given an object of the Python class {name or '?'}, which archives "
            "hold as a pickle alone",
            hint="Export a model that makes the object in its forward, or does without. "
            "torch.export.load unpickles it, where you trust the file as you trust code",
        )
    if found is None:
        raise UnknownClassError(
            f"the class {qualified} is not registered", hint=what_registers(qualified)
        )
    return found


def _refused(state: State, payload: PickledPayload) -> UnsupportedError:
    of = "" if payload.class_name is None else f" of {payload.class_name}"
    what = {PayloadKind.TENSOR: "a tensor", PayloadKind.CUSTOM_OBJECT: "an object"}.get(
        payload.kind, "a Python object"
    )
    return UnsupportedError(
        f"{state.target!r} is {what}{of} that only a pickle describes, and unpickling it would "
        "run code that the file names",
        record=payload.record,
        hint="Where you trust the file as you trust code, torch.export.load unpickles it",
    )


def _chosen(records: Records, model: str | None) -> str:
    names = records.programs()
    if model is not None:
        if model not in names:
            raise records.missing(model)
        return model
    if len(names) == 1:
        return names[0]
    if USUAL_NAME in names:
        return USUAL_NAME
    raise CallError(
        f"the archive has {len(names)} models: {', '.join(names)}",
        hint=f"Say which one: model={names[0]!r}",
    )
