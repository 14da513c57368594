"""Loading of a PT2 archive as a module, on the device that it was exported on or another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from tsarchive.container import Container
from tsarchive.errors import CallError, MissingRecordError, UnknownClassError, UnsupportedError
from tsarchive.formats.torchscript.devices import DeviceMap
from tsarchive.formats.torchscript.importer import Unpickling
from tsarchive.formats.torchscript.stored_tensors import is_device
from tsarchive.formats.torchscript.tensors import TensorReader
from tsarchive.frontend.libraries import what_registers
from tsarchive.ir.classes import ClassType
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.types import NamedType, Type
from tsarchive.pickler import Object
from tsarchive.policy import FOR_STRANGERS, Guard
from tsarchive.run.classes import Classes
from tsarchive.run.objects import new_object
from tsarchive.run.operators import native_class, operator_schemas
from tsarchive.run.slots import set_slot

from .calling_convention import ForwardMethod
from .metadata import nodes_of, places
from .payloads import Kind, Payload, PickledPayload, Saved, StoredView, stored_payloads
from .program import Forward
from .records import FLAT_STATES, USUAL_NAME, Records
from .schema import Argument, Device, ExportedProgram, Graph, NamedArgument, device_name
from .signature import TRAINING, Module, NamedTuples, State, StateKind, module_of, read_signature
from .tensors import Tensors

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule

_HOST, _NOWHERE = "cpu", "meta"


def _moved(program: ExportedProgram, target: str) -> ExportedProgram:
    """Return the program with the devices that its nodes name moved to ``target``.

    Where everything is on the CPU, that is merely where the program was exported, and the CPU is
    moved as well.
    """
    graph = program.graph_module.graph
    named = set(map(device_name, _devices(graph)))
    on_others = any(name.partition(":")[0] not in (_HOST, _NOWHERE) for name in named)
    kind = target.partition(":")[0]
    devices = DeviceMap(target, keeps_cpu=on_others and kind not in (_HOST, _NOWHERE))
    moved = replace(program.graph_module, graph=_move_graph(graph, devices))
    return replace(program, graph_module=moved)


def _devices(graph: Graph) -> Iterator[Device]:
    """Yield the devices of the tensors of a graph, and those that nodes name."""
    yield from (meta.device for meta in graph.tensor_values.values())
    for node in nodes_of(graph):
        yield from (input_.arg.value for input_ in node.inputs if input_.arg.tag == "as_device")


def _move_graph(graph: Graph, devices: DeviceMap) -> Graph:
    nodes = [
        replace(node, inputs=[_move_input(input_, devices) for input_ in node.inputs])
        for node in graph.nodes
    ]
    return replace(graph, nodes=nodes)


def _move_input(input_: NamedArgument, devices: DeviceMap) -> NamedArgument:
    value = input_.arg.value
    match input_.arg.tag:
        case "as_device":
            if not is_device(name := device_name(value)):
                return input_
            kind, _, index = devices.moved(name).partition(":")
            value = Device(kind, int(index) if index else None)
        case "as_graph":
            value = replace(value, graph=_move_graph(value.graph, devices))
        case _:
            return input_
    return replace(input_, arg=Argument(input_.arg.tag, value))


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
    ) -> None:
        self.container = container
        self.device = device
        self.records = Records(container)
        self.model = _chosen(self.records, model)
        self.record = self.records.program_record(self.model)
        program = self.records.program(self.model)
        self.program = program if device is None else _moved(program, str(device))
        self.classes = Classes(container, guard)
        self.code = _Types()
        # Read by unpickling from every importer; the text of this archive is never moved.
        self.moved = None
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
        class_ = self.classes.python_class(module.type)
        class_.tsarchive_program = forward
        ForwardMethod(forward, self.classes.compiler).place(class_, "forward")
        return module

    def load(self) -> ArchiveModule:
        """Return the module. Raises ArchiveError where a record breaks a rule of the format."""
        stored = {
            folder: stored_payloads(self.records, folder, self.model) for folder in FLAT_STATES
        }
        views = {state.target: self._view(state, stored) for state in self.signature.states}
        tensors = Tensors(
            [view for view in views.values() if isinstance(view, StoredView)], self.device
        )
        return self._built(self._module, views, tensors)  # type: ignore[no-any-return]

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
        built = new_object(self.classes.python_class(module.type))
        slots = module.type.attributes
        set_slot(built, slots[TRAINING.name], True)
        for name, state in module.states.items():
            set_slot(built, slots[name], self._value(state, views[state.target], tensors))
            if state.kind is StateKind.BUFFER and not state.is_persistent:
                built._non_persistent_buffers_set.add(name)
        for name, child in module.children.items():
            set_slot(built, slots[name], self._built(child, views, tensors))
        return built

    def _value(self, state: State, payload: Payload, tensors: Tensors) -> Any:
        if isinstance(payload, PickledPayload):
            if state.kind is StateKind.CUSTOM_OBJ and payload.kind is Kind.CUSTOM_OBJECT:
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
    what = {Kind.TENSOR: "a tensor", Kind.CUSTOM_OBJECT: "an object"}.get(
        payload.kind, "a Python object"
    )
    return UnsupportedError(
        f"{state.target!r} is {what}{of} that only a pickle describes, and unpickling it would "
        "run code that the file names",
        record=payload.record,
        hint="Where you trust the file as you trust code, torch.export.load unpickles it",
    )


def _chosen(records: Records, model: str | None) -> str:
    names = records.models
    if records.compiled and not names:
        raise UnsupportedError(
            f"the archive holds code that AOTInductor compiled ({', '.join(records.compiled)}), "
            "and no program that it was compiled from",
            hint="Where you trust the file as you trust code, torch._inductor.aoti_load_package "
            "loads it as a library of this process",
        )
    if not names:
        raise MissingRecordError("the archive has no program", record="models/")
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
