"""A loaded network with modules of libraries in the place of those that are proven to be such.

Code of an archive calls a module that is not of its own classes as Python does, with hooks, so
what is put in its place later takes effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from tsarchive.ir.classes import ClassType, InterfaceType, is_forward
from tsarchive.ir.graph import walk
from tsarchive.ir.types import Type
from tsarchive.run.modules import ArchiveModule

from .arguments import construct
from .known import class_named
from .proof import with_tensors_of
from .recovery import Proven, Recovered, examined


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one module: ``recovered``, or the ``reason`` why it stays what it is.

    ``path`` is its name in the network, "" that of the network itself, and ``original_name`` the
    name of its class in the archive.
    """

    path: str
    original_name: str
    recovered: Recovered | None
    reason: str


def outcomes(module: ArchiveModule) -> list[Outcome]:
    """Say of each module of a loaded network which class of a library it is of, or why of none.

    Modules inside one that is of a class of a library are part of it, and have no row of their own.
    A module with several names has a row for the first.
    """
    calls = _Calls(module)
    found = []
    for path, part, result in _parts(module, calls):
        if isinstance(result, Proven):
            found.append(Outcome(path, part.original_name, result.recovered, ""))
        else:
            found.append(Outcome(path, part.original_name, None, result))
    return found


def with_library_modules(module: ArchiveModule) -> nn.Module:
    """Put modules of libraries in the place of those that are proven to be of their classes.

    They have the very tensors of the module, which stay shared where they were. Returns ``module``,
    or what takes its place.
    """
    calls = _Calls(module)
    made: dict[int, nn.Module] = {}

    def replaced(part: nn.Module) -> nn.Module:
        if id(part) not in made:
            found = _examined(part, calls) if isinstance(part, ArchiveModule) else ""
            if isinstance(found, Proven):
                made[id(part)] = _made(part, found)
            else:
                made[id(part)] = part
                for name, child in part._modules.items():
                    if child is not None:
                        part._modules[name] = replaced(child)
        return made[id(part)]

    return replaced(module)


def _made(part: nn.Module, proven: Proven) -> nn.Module:
    built = construct(proven.class_, proven.arguments)
    assert built is not None
    return with_tensors_of(part, built)


def _parts(
    module: ArchiveModule, calls: _Calls
) -> Iterator[tuple[str, ArchiveModule, Proven | str]]:
    """Yield modules with their paths and what became of them, those inside a module of a library
    left out."""
    inside: set[nn.Module] = set()
    for path, part in module.named_modules():
        if part not in inside and isinstance(part, ArchiveModule):
            found = _examined(part, calls)
            yield path, part, found
            if isinstance(found, Proven):
                inside.update(part.modules())


def _examined(part: ArchiveModule, calls: _Calls) -> Proven | str:
    called = calls.of_others_than_forward(part.tsarchive_class)
    if called is None or class_named(part.tsarchive_class.qualified_name) is None:
        return examined(part)
    return f"other code of the archive calls its method {called!r}"


class _Calls:
    """The calls of methods, other than ``forward``, that classes make on modules of others."""

    def __init__(self, module: ArchiveModule) -> None:
        self._by_class: set[tuple[ClassType, str]] = set()
        self._by_name: set[str] = set()
        for class_ in {type(part): None for part in module.modules()}:
            if issubclass(class_, ArchiveModule):
                self._read(class_.tsarchive_class)

    def of_others_than_forward(self, class_: ClassType) -> str | None:
        """Return the name of a method that other code calls; None without any."""
        called = self._by_name | {name for type_, name in self._by_class if type_ is class_}
        return next((name for name in class_.methods if name in called), None)

    def _read(self, owner: ClassType) -> None:
        for method in owner.methods.values():
            for node in walk(method.graph.nodes):
                if node.kind == "prim::CallMethod":
                    self._note(owner, node.input.type, node.name)

    def _note(self, owner: ClassType, type_: Type, name: str) -> None:
        if isinstance(type_, InterfaceType):
            self._by_name |= {name} - {"forward"}
        elif isinstance(type_, ClassType) and type_ is not owner and not is_forward(type_, name):
            self._by_class.add((type_, name))
