"""The contents of a PT2 archive: its programs as plain data, and its weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import IntEnum
from functools import cache, cached_property, partial
from typing import Any, Final

from tsarchive.analyses.encoding import Plain
from tsarchive.formats.contents import (
    Contents,
    Definition,
    Elements,
    ModuleContent,
    Outline,
    TensorContent,
    told_checksum,
)

from . import schema
from .payloads import Payload, PickledPayload, Storage, StoredView
from .view import Pt2View

# Symbols of sizes and numbers are numbered by the process that exported. A quoted name of an
# expression is that of a symbol; elsewhere quoted text and attributes have names of the user.
_SYMBOL: Final = re.compile(r"\b(s|u|zf|zuf|ps)\d+\b")
_OUTSIDE_QUOTES: Final = re.compile(r"""'[^']*'|"[^"]*"|(?<!\.)""" + _SYMBOL.pattern)
# What torch asserts of symbols; its message is the only text of a call that names them.
_ASSERTION: Final = "torch.ops.aten._assert_scalar.default"
_MESSAGE: Final = "Runtime assertion failed for expression "
# How arguments and results are nested, and how that is called in changes.
_NESTING: Final = {
    "in_spec": "of arguments", "out_spec": "of results", "forward_arg_names": "by names",
}  # fmt: skip
# Places in source, names of values, and layouts that torch tells in several ways.
_NOT_MEANING: Final = frozenset(
    {
        "metadata", "name", "kind", "is_hop_single_tensor_return", "strides", "storage_offset",
    }
)  # fmt: skip


class Pt2Contents(Contents):
    """The contents of the models of an archive."""

    language = "torch.export"

    def __init__(self, view: Pt2View) -> None:
        self._view = view

    @cached_property
    def _parts(self) -> Mapping[str, tuple[Plain, Plain]]:
        """Code and structure of each model."""
        return {model: _Program(self._view.program(model)).parts() for model in self._view.models}

    @property
    def code(self) -> Plain:
        return {model: code for model, (code, _) in self._parts.items()}

    @cached_property
    def structure(self) -> Plain:
        return {
            model: [structure, self._payloads(model)]
            for model, (_, structure) in self._parts.items()
        }

    def _payloads(self, model: str) -> Plain:
        return {name: _payload(found) for name, found in self._view.payloads(model).items()}

    @cached_property
    def tensors(self) -> Mapping[str, TensorContent]:
        # A record that is compressed is inflated once for all tensors in it.
        data = cache(Storage.data)
        return {
            name: _content(self._view, found, data) for name, found in self._view.named_payloads()
        }

    @cached_property
    def outline(self) -> Outline:
        models = self._view.models
        found = {model: self._outlined(model) for model in models}
        if len(models) == 1:
            return Outline({"": found[models[0]]}, [])
        whole = ModuleContent(Definition("", {"kind": "archive"}, {}, {}, {}), {})
        return Outline({"": whole, **found}, [])

    def _outlined(self, model: str) -> ModuleContent:
        payloads = {name: _payload(found) for name, found in self._view.payloads(model).items()}
        return _Program(self._view.program(model)).outline(model, payloads)

    @cached_property
    def extra_files(self) -> Mapping[str, bytes]:
        records = self._view.records
        return {
            name: records.container.read(record) for name, record in records.extra_files().items()
        }


def _payload(payload: Payload) -> Plain:
    if isinstance(payload, PickledPayload):
        return {"pickled": payload.kind.value, "class": payload.class_name}
    return {
        "tensor": _meaning(payload),
        "device": payload.device,
        "grad": payload.requires_grad,
        "parameter": payload.is_parameter,
    }


def _meaning(view: StoredView) -> Plain:
    return ["dense", view.dtype.dtype, [*view.shape], []]


def _content(
    view: Pt2View, payload: Payload, data: Callable[[Storage], memoryview]
) -> TensorContent:
    if isinstance(payload, PickledPayload):
        container = view.records.container
        size = container.records[payload.record].size
        elements = Elements(
            lambda: container.view(payload.record), 0, [size], [1], 1, 1,
            checksum=lambda: told_checksum(container.records, payload.record),
        )  # fmt: skip
        return TensorContent(["pickled"], elements)
    itemsize = schema.DTYPES[payload.dtype].itemsize
    container, record = payload.storage.place
    elements = Elements(
        partial(data, payload.storage) if payload.has_data else None,
        payload.offset * itemsize,
        payload.shape,
        [step * itemsize for step in payload.strides],
        itemsize,
        itemsize,
        checksum=lambda: told_checksum(container.records, record),
    )
    role = "parameter" if payload.is_parameter else "buffer or constant"
    traits = payload.device, payload.requires_grad, None, role
    return TensorContent(_meaning(payload), elements, *traits)


class _Program:
    """Encodes a program: values and symbols by numbers, in the order in which they appear."""

    def __init__(self, program: schema.ExportedProgram) -> None:
        self._program = program
        self._values: dict[str, int] = {}
        self._symbols: dict[str, str] = {}

    def parts(self) -> tuple[Plain, Plain]:
        """Return code and structure; symbols have the same numbers in both."""
        code = self._code()
        return code, self._structure()

    def _code(self) -> Plain:
        module = self._program.graph_module
        graph = self._graph(module.graph)
        return [graph, self._plain(module.signature)]

    def _structure(self) -> list[Any]:
        module = self._program.graph_module
        inputs = [self._input(module.graph, value) for value in module.graph.inputs]
        calls = [self._plain(entry) for entry in module.module_call_graph if entry.fqn == ""]
        guards = [
            _OUTSIDE_QUOTES.sub(self._declared_symbol, text) for text in self._program.guards_code
        ]
        return [inputs, calls, self._ranges(), guards]

    def _ranges(self) -> Plain:
        """Return the ranges of the symbols that were met; torch drops those of others."""
        return sorted(
            [self._symbols[name], found.min_val, found.max_val]
            for name, found in self._program.range_constraints.items()
            if name in self._symbols
        )

    def _input(self, graph: schema.Graph, value: schema.Argument) -> Plain:
        name = getattr(value.value, "name", None)
        return self._plain(graph.tensor_values.get(name)) if isinstance(name, str) else None

    def outline(self, model: str, payloads: Mapping[str, Plain]) -> ModuleContent:
        """Return what is compared with another program."""
        from .outline import ProgramOutline  # what digests the contents has no use for it

        _ = self._code()  # which symbols there are
        found = ProgramOutline(self._program, self._literal, self._renumbered)
        return found.module(model, payloads, dict(self._named_structure()))

    def _named_structure(self) -> Iterator[tuple[str, Plain]]:
        """Yield parts of the structure, the first word being what they are."""
        _, calls, ranges, guards = self._structure()
        for symbol, *limits in ranges:
            yield f"range {symbol}", limits
        for number, guard in enumerate(guards):
            yield f"guard {number}", guard
        for number, call in enumerate(calls):
            signature = call["signature"] or {}
            for field, name in _NESTING.items():
                yield f"nesting {name}{f' {number}' if number else ''}", signature.get(field)

    def _literal(self, target: str, value: schema.Tagged) -> Plain:
        plain = self._asserted(value) if target == _ASSERTION else self._plain(value)
        assert isinstance(plain, Mapping)
        return plain[value.tag]

    def _renumbered(self, text: str) -> str:
        return _SYMBOL.sub(self._symbol, text)

    def _graph(self, graph: schema.Graph) -> Plain:
        inputs = [self._plain(value) for value in graph.inputs]
        nodes = [self._node(node) for node in graph.nodes]
        return [inputs, nodes, [self._plain(value) for value in graph.outputs]]

    def _node(self, node: schema.Node) -> Plain:
        argument = self._asserted if node.target == _ASSERTION else self._plain
        inputs = [[given.name, argument(given.arg)] for given in node.inputs]
        return [node.target, inputs, [self._plain(value) for value in node.outputs]]

    def _asserted(self, value: schema.Tagged) -> Plain:
        if value.tag == "as_string" and value.value.startswith(_MESSAGE):
            return {"as_string": _OUTSIDE_QUOTES.sub(self._symbol, value.value)}
        return self._plain(value)

    def _plain(self, value: Any) -> Plain:
        match value:
            case schema.Graph():
                return self._graph(value)
            case schema.Tagged(tag="as_name", value=name):
                return {"as_name": self._number(name)}
            case schema.Tagged(tag, content):
                return {tag: self._plain(content)}
            case schema.TensorArgument(name) | schema.CustomObjArgument(name):
                return self._number(name)
            case schema.SymExpr(text, hint):
                return {"expr_str": _SYMBOL.sub(self._symbol, text), "hint": self._plain(hint)}
            case IntEnum():
                return int(value)
            case list() | tuple():
                return [self._plain(item) for item in value]
            case dict():
                return {key: self._plain(item) for key, item in value.items()}
            case None | bool() | int() | float() | str():
                return value
        names = (field.name for field in fields(value) if field.name not in _NOT_MEANING)
        return {name: self._plain(getattr(value, name)) for name in names}

    def _number(self, name: str) -> int:
        return self._values.setdefault(name, len(self._values))

    def _declared_symbol(self, match: re.Match[str]) -> str:
        return self._symbol(match) if match[0] in self._program.range_constraints else match[0]

    def _symbol(self, match: re.Match[str]) -> str:
        """Return the number of a symbol, and quoted text as it is."""
        if match[1] is None:
            return match[0]
        return self._symbols.setdefault(match[0], f"{match[1]}#{len(self._symbols)}")
