"""Classes of a program's modules, from the dotted names of its state.

An exported program has one graph and no modules; its weights have the names that they had in the
original modules. Each module becomes a class that declares them, without methods; the root's has
``forward``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tsarchive.errors import FormatError
from tsarchive.formats.torchscript.stored_tensors import MAX_DEPTH
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.names import to_identifier, to_type_name, unmangled, untaken_name
from tsarchive.ir.types import BOOL, TENSOR, Type

from .signature import State, StateKind

TRAINING = Attribute("training", BOOL)
_UNKNOWN = "torch.nn.modules.module.Module"
_ROOT = "torch.export.ExportedProgram"
_CLASS_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*)*", re.ASCII)
# Keywords of TorchScript that no atom of a qualified name may be.
_TORCH = "__torch__"


@dataclass(slots=True)
class Module:
    """A module with its class; ``states`` are its own attributes by name."""

    type: ClassType
    children: dict[str, Module] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)


@dataclass(slots=True)
class _Draft:
    path: str
    children: dict[str, _Draft] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)


def module_of(
    states: Iterable[State],
    types: Mapping[str, Type],
    class_names: Mapping[str, str],
    taken: Iterable[str],
    record: str,
) -> Module:
    """Return the root module.

    ``types`` are those of custom objects by dotted name, ``class_names`` those of modules by dotted
    name, ``taken`` qualified names that are in use. Raises FormatError for names that cannot form
    one tree of modules.
    """
    root = _Draft("")
    for state in states:
        _place(root, state, record)
    return _Classes(types, class_names, taken).module(root)


def _place(root: _Draft, state: State, record: str) -> None:
    *path, name = state.target.split(".")
    if not all((*path, name)) or len(path) > MAX_DEPTH:
        raise FormatError(f"{state.target[:200]!r} is no name of an attribute", record=record)
    found = root
    for depth, part in enumerate(path, 1):
        if part in found.states:
            raise FormatError(f"{'.'.join(path[:depth])!r} is a module and a tensor", record=record)
        found = found.children.setdefault(part, _Draft(".".join(path[:depth])))
    known = found.states.get(name)
    if name in found.children or (known is not None and known.kind is not state.kind):
        raise FormatError(f"{state.target!r} stands for two things", record=record)
    found.states[name] = state


class _Classes:
    """Makes the classes of one program. Modules with equal declarations share one."""

    def __init__(
        self, types: Mapping[str, Type], class_names: Mapping[str, str], taken: Iterable[str]
    ) -> None:
        self._types = types
        self._class_names = class_names
        self._taken = set(taken)
        self._known: dict[tuple[str, tuple[Attribute, ...]], ClassType] = {}

    def module(self, draft: _Draft) -> Module:
        children = {name: self.module(child) for name, child in draft.children.items()}
        attributes = [TRAINING]
        attributes += [self._attribute(name, state) for name, state in draft.states.items()]
        attributes += [Attribute(name, child.type) for name, child in children.items()]
        # A torch module's own declarations come first.
        unique = {attribute.name: attribute for attribute in attributes}
        type_ = self._class(draft.path, tuple(unique.values()))
        return Module(type_, children, draft.states)

    def _attribute(self, name: str, state: State) -> Attribute:
        if state.kind is StateKind.OBJECT:
            return Attribute(name, self._types[state.target])
        return Attribute(
            name,
            TENSOR,
            is_parameter=state.kind is StateKind.PARAMETER,
            is_buffer=state.kind is StateKind.BUFFER,
        )

    def _class(self, path: str, attributes: tuple[Attribute, ...]) -> ClassType:
        given = self._class_names.get(path, _UNKNOWN if path else _ROOT)
        # Programs exported from modules of an archive have its class names.
        given = unmangled(given).removeprefix(f"{_TORCH}.")
        name = to_type_name(given if _CLASS_NAME.fullmatch(given) else to_identifier(given))
        key = name, attributes
        found = self._known.get(key) if path else None
        if found is None:
            qualified = untaken_name(f"{_TORCH}.{name}", self._taken)
            found = ClassType(qualified, is_module=True)
            found.attributes.update({attribute.name: attribute for attribute in attributes})
            self._known[key] = found
        return found
