"""The names that things of an archive have in Python, where they must be identifiers.

Parameters, buffers and submodules keep their names, which state dicts show. Where such a name is
no identifier, or means something to ``torch.nn.Module``, the table that holds it is used instead.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import count
from typing import Any

from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.names import is_identifier, to_identifier, unmangled
from tsarchive.ir.types import BOOL, FLOAT, INT, STRING, DictType, ListType
from tsarchive.run.slots import INHERITED, SHARED_SLOTS, SlotKind, is_dunder, slot_kind

from . import syntax

_LONGEST = 60
_SELF_AND_INPUT = 2
ROOT = "__torch__"
"""What qualified names of archives begin with."""
_ROOT_MODULE = "model"

GLOBAL_NAMES = frozenset(
    {name for name in dir(builtins) if name.islower()} | {"torch", "nn", "F", "math", "self"}
) - {"input", "id", "hash", "vars", "dir", "iter", "next", "format", "filter", "map", "object"}
"""Names that variables leave to what every reader takes them for."""


def identifier(text: str, *, private: bool = True) -> str:
    """Make an identifier like ``text``, which may be anything."""
    found = to_identifier(text)[:_LONGEST]
    if not private:
        found = found.lstrip("_") or "v"
    if found[0].isdigit():
        found = f"v{found}"
    return f"{found}_" if keyword.iskeyword(found) or found == "_" else found


def definition_name(text: str) -> str:
    """Return the name of a class or function, which stands for it in classes and modules alike.

    Python gives names in two underscores other names inside of classes, or a meaning in modules;
    and ``super()`` means the class around it by that name alone.
    """
    found = identifier(text)
    if found.startswith("__"):
        found = identifier(text, private=False)
    return f"{found}_" if found == "super" else found


def module_path(qualified_name: str) -> tuple[str, ...]:
    """Return the parts of the module that holds a class or function of an archive."""
    *atoms, _ = unmangled(qualified_name).split(".")
    if atoms[:1] == [ROOT]:
        del atoms[0]
    parts = tuple(identifier(atom).lower() for atom in atoms)
    # Names in double underscores mean something to Python, those of one belong to the package.
    return tuple(f"m{part}" if part[0] == "_" else part for part in parts) or (_ROOT_MODULE,)


def numbered(name: str, separator: str = "_") -> Iterator[str]:
    """Yield the name, then ``name_1``, ``name_2`` and so on."""
    yield name
    for number in count(1):
        yield f"{name}{separator}{number}"


class Pool:
    """Makes names unique within one scope, also where case is ignored."""

    def __init__(self, taken: Iterable[str] = (), *, fold: bool = True) -> None:
        self._fold = fold
        self._taken = set(taken)

    def unique(self, candidate: str) -> str:
        found = next(n for n in numbered(candidate) if self._key(n) not in self._taken)
        self._taken.add(self._key(found))
        return found

    def _key(self, name: str) -> str:
        return name.lower() if self._fold else name


OF_CONTAINERS = frozenset({"__len__", "__contains__"})
"""Methods that torch's containers of modules have themselves."""

_GETTER = re.compile("__(.+)_getter")
ACCESSOR = re.compile("__.+_(getter|setter)")
STATE_METHODS = {"__getstate__": "archive_getstate", "__setstate__": "archive_setstate"}
"""Methods of archives that Python calls for reasons of its own, and their names in packages."""


def is_plain(name: str) -> bool:
    """Return whether the name can stand behind a dot."""
    is_private = name.startswith("__") and not name.endswith("__")
    return is_identifier(name) and not keyword.iskeyword(name) and not is_private


class Members:
    """The names in Python of the ``methods`` and ``slots`` of one class.

    ``getters`` and ``setters`` are the methods that get and set properties, with their names.
    """

    def __init__(self, class_: ClassType) -> None:
        self.class_ = class_
        self._inherited = INHERITED[class_.is_module]
        self.getters, self.setters = _properties(class_, self._inherited)
        self.methods = self.getters | self.setters
        self.slots: dict[str, str] = {}
        taken = {*class_.methods, *class_.attributes, *self.getters.values()}
        for name in (*class_.methods, *(hook.name for hook in class_.hooks())):
            self.methods.setdefault(name, self._fitting(name, taken, is_method=True))
        for name in class_.attributes:
            self.slots[name] = self._fitting(name, taken, is_method=False)

    def _fitting(self, name: str, taken: set[str], *, is_method: bool) -> str:
        found = STATE_METHODS.get(name, name) if is_method else name
        is_special = is_dunder(found) and is_identifier(found)
        if is_method and is_special and not (found in self._inherited and self.class_.is_module):
            return found
        hidden = self._inherited if found != "forward" else frozenset()
        if is_plain(found) and found not in hidden and (is_method or found not in self.methods):
            return found
        found = method_name(name, is_module=self.class_.is_module) if is_method else found
        found = identifier(found, private=False)
        while (found in taken and found != name) or found in self._inherited:
            found += "_"
        taken.add(found)
        return found

    def constants(self) -> dict[str, Any]:
        """Return the constants that can be attributes, with their values."""
        taken = {*self._inherited, *self.slots, *self.methods, *self.getters.values()}
        return {
            name: constant.value
            for name, constant in self.class_.constants.items()
            if is_plain(name) and name not in taken
        }

    def accessors(self) -> Iterator[str]:
        """Yield the methods that the archive has for getting and setting properties."""
        return filter(ACCESSOR.fullmatch, self.class_.methods)

    def kind(self, name: str) -> SlotKind:
        return slot_kind(self.class_, self.class_.attributes[name])

    def is_direct(self, name: str) -> bool:
        """Return whether a slot is an attribute of Python, not an entry of a table only."""
        return self.kind(name) is SlotKind.PLAIN or self.slots[name] == name

    def reach(self, base: ast.expr, name: str) -> ast.expr:
        """Return the expression that reads the slot ``name`` of the object ``base``."""
        kind = self.kind(name)
        container = container_base(self.class_)
        if kind is SlotKind.MODULE and container is not None:
            key = name if container == "ModuleDict" else int(name)
            return syntax.subscript(base, syntax.literal(key))
        if self.is_direct(name):
            return syntax.attribute(base, self.slots[name])
        if self.is_found(name):
            return syntax.call(syntax.builtin("getattr"), [base, syntax.literal(name)])
        return syntax.subscript(syntax.attribute(base, kind.value), syntax.literal(name))

    def is_found(self, name: str) -> bool:
        """Return whether ``getattr`` finds an entry of a table, which hides no class attribute."""
        taken = {*self._inherited, *self.methods.values(), *self.constants()}
        return bool(name) and "." not in name and name not in taken

    def place(self, base: ast.expr, name: str) -> ast.expr:
        """Return what the slot ``name`` of the object ``base`` is assigned to by."""
        if self.is_direct(name) or not self.is_found(name):
            return self.reach(base, name)
        return syntax.subscript(syntax.attribute(base, self.kind(name).value), syntax.literal(name))


def _properties(
    class_: ClassType, inherited: Container[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the methods that get and that set properties, with the names of these.

    A module takes tensors that are assigned to it for parameters: there a setter of tensors, and
    its getter, stay methods.
    """
    getters, setters = {}, {}
    for getter in class_.methods:
        match = _GETTER.fullmatch(getter)
        name = match[1] if match else ""
        if not is_plain(name) or name in inherited or name in class_.attributes:
            continue
        setter = class_.methods.get(f"__{name}_setter")
        if name in class_.methods or (setter and class_.is_module and _takes_tensor(setter)):
            continue
        getters[getter] = name
        if setter:
            setters[setter.name] = name
    return getters, setters


def _takes_tensor(setter: Function) -> bool:
    type_ = setter.schema.arguments[-1].type
    return type_ not in (INT, FLOAT, BOOL, STRING) and not isinstance(type_, ListType | DictType)


def method_name(name: str, *, is_module: bool) -> str:
    """Return a name that torch.nn.Module does not have; all classes of an interface share it."""
    return f"{name}_" if is_module and name != "forward" and name in INHERITED[True] else name


members_of = cache(Members)


@cache
def runs_in_order(class_: ClassType) -> bool:
    """Return whether ``forward`` passes one value through the submodules, as Sequential does."""
    graph = class_.methods["forward"].graph
    if len(graph.params) != _SELF_AND_INPUT:
        return False
    self_, value = graph.params
    passed = 0
    for node in graph.nodes:
        if node.is_constant or node.kind == "prim::GetAttr":
            continue
        if node.kind != "prim::CallMethod" or node.name != "forward":
            return False
        child = node.inputs[0].node
        is_next = (
            child.kind == "prim::GetAttr" and child.input is self_ and child.name == str(passed)
        )
        if not is_next or len(node.inputs) != _SELF_AND_INPUT or node.inputs[1] is not value:
            return False
        value, passed = node.output, passed + 1
    return list(graph.returns) == [value] and str(passed) not in class_.attributes


@cache
def container_base(class_: ClassType) -> str | None:
    """Return ``Sequential`` or ``ModuleList`` for a class of numbered submodules alone.

    ``ModuleDict`` is returned for torch's own class: any module may have named ones alone.
    """
    slots = class_.attributes
    names = [name for name in slots if slot_kind(class_, slots[name]) is SlotKind.MODULE]
    is_numbered = names == [str(index) for index in range(len(names))]
    is_dict = unmangled(class_.qualified_name) == _MODULE_DICT
    if not names or not (is_numbered or is_dict):
        return None
    if class_.forward_hooks or class_.forward_pre_hooks:
        return None
    others = set(slots) - set(names) - SHARED_SLOTS
    methods = set(class_.methods) - OF_CONTAINERS
    if others or methods - {"forward"} or (is_dict and methods):
        return None
    if is_dict:
        return "ModuleDict"
    takes_one = methods and len(class_.methods["forward"].schema.arguments) == _SELF_AND_INPUT
    return "Sequential" if takes_one else "ModuleList"


_MODULE_DICT = f"{ROOT}.torch.nn.modules.container.ModuleDict"
