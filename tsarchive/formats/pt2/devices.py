"""Moving a program to another device than it was exported on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tsarchive.formats.torchscript.devices import DeviceMap
from tsarchive.formats.torchscript.stored_tensors import is_device

from .payloads import device_name
from .schema import Argument, Device, ExportedProgram, Graph, NamedArgument, Node

_HOST, _NOWHERE = "cpu", "meta"


def move_program(
    program: ExportedProgram, target: str, tensors_on: Iterable[str]
) -> ExportedProgram:
    """Return the program with the devices that its nodes name moved to ``target``.

    ``tensors_on`` are the devices of its tensors. Where everything is on the CPU, that is merely
    where the program was exported, and the CPU is moved as well.
    """
    graph = program.graph_module.graph
    named = {*tensors_on, *(device_name(device) for device in _devices(graph))}
    on_others = any(name.partition(":")[0] not in (_HOST, _NOWHERE) for name in named)
    kind = target.partition(":")[0]
    devices = DeviceMap(target, keeps_cpu=on_others and kind not in (_HOST, _NOWHERE))
    moved = replace(program.graph_module, graph=_move_graph(graph, devices))
    return replace(program, graph_module=moved)


def _devices(graph: Graph) -> Iterator[Device]:
    for node in graph.nodes:
        for input_ in node.inputs:
            if input_.arg.tag == "as_device":
                yield input_.arg.value
            elif input_.arg.tag == "as_graph":
                yield from _devices(input_.arg.value.graph)


def _move_graph(graph: Graph, devices: DeviceMap) -> Graph:
    return replace(graph, nodes=[_move_node(node, devices) for node in graph.nodes])


def _move_node(node: Node, devices: DeviceMap) -> Node:
    if not any(input_.arg.tag in ("as_device", "as_graph") for input_ in node.inputs):
        return node
    return replace(node, inputs=[_move_input(input_, devices) for input_ in node.inputs])


def _move_input(input_: NamedArgument, devices: DeviceMap) -> NamedArgument:
    value = input_.arg.value
    if input_.arg.tag == "as_device":
        moved = _move_device(value, devices)
        return replace(input_, arg=Argument("as_device", moved))
    if input_.arg.tag == "as_graph":
        inner = replace(value, graph=_move_graph(value.graph, devices))
        return replace(input_, arg=Argument("as_graph", inner))
    return input_


def _move_device(device: Device, devices: DeviceMap) -> Device:
    name = device_name(device)
    if not is_device(name):
        return device
    kind, _, index = devices.moved(name).partition(":")
    return Device(kind, int(index) if index else None)
