"""The code of an archive as classes, slots, hooks and functions, by name and by method name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tsarchive.errors import SourceError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.formats.torchscript.program_text import FunctionText, RecordText, dotted

# Where code is besides ``code/``: before torch 1.3, and in a torch.package.
_OTHER_FOLDERS: Final = ("libs/", ".data/ts_code/code/")
_INTERFACES: Final = frozenset({"Interface", "ModuleInterface"})
_HOOKS: Final = frozenset({"__forward_pre_hooks__", "__forward_hooks__"})


@dataclass(slots=True)
class ClassText:
    """A class: ``slots`` are annotations of attributes, ``constants`` the values of those that
    are fixed, ``hooks`` the names of methods that run around ``forward``."""

    name: str
    is_interface: bool
    slots: dict[str, ast.expr] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    methods: dict[str, FunctionText] = field(default_factory=dict)
    hooks: tuple[str, ...] = ()


class Program:
    """All definitions of the code records; ``faults`` are records that do not parse.
    ``classes_in_types`` has the classes that annotations name, by the ids of these, once they
    have been looked for.

    Records of archives of before torch 1.3 hold the methods of a module without its class:
    such functions have no owner.
    """

    def __init__(self, code: Mapping[str, bytes]) -> None:
        self.classes: dict[str, ClassText] = {}
        self.functions: dict[str, FunctionText] = {}
        self.by_last_name: dict[str, list[FunctionText]] = {}
        self.methods_by_name: dict[str, list[FunctionText]] = {}
        self.classes_in_types: dict[int, frozenset[str]] = {}
        self.records: dict[str, str] = {}
        self.faults: list[Finding] = []
        for name, data in code.items():
            self._read(name, data)

    def record_of(self, function: FunctionText) -> str:
        """The record that a function stands in, by the name it has in the archive."""
        return self.records[function.record.name]

    def _read(self, name: str, data: bytes) -> None:
        known_as = _as_code(name)
        record = RecordText(known_as, data)
        self.records[known_as] = name
        try:
            functions = record.functions
        except SourceError as error:
            self.faults.append(_unparsable(name, error))
            return
        for node in record.tree:
            if isinstance(node, ast.ClassDef):
                found = _class_of(node, f"{record.module}.{node.name}")
                self.classes[found.name] = found
        for function in functions:
            self._add(function)

    def _add(self, function: FunctionText) -> None:
        self.functions[function.qualified_name] = function
        name = function.node.name
        self.by_last_name.setdefault(name, []).append(function)
        if function.owner:
            self.classes[function.owner].methods[name] = function
            self.methods_by_name.setdefault(name, []).append(function)

    def implementations(self, class_: str, method: str) -> list[FunctionText]:
        """What a call of a method on a value of this class may run."""
        found = self.classes.get(class_)
        if found is None:
            return []
        if found.is_interface:
            return self.methods_by_name.get(method, [])
        return [found.methods[method]] if method in found.methods else []


def _as_code(name: str) -> str:
    for folder in _OTHER_FOLDERS:
        if name.startswith(folder):
            return f"code/{name.removeprefix(folder)}"
    return name


def _unparsable(record: str, error: SourceError) -> Finding:
    nature = Nature.BROKEN if error.limit is None else Nature.HOSTILE
    return Finding(
        "code-unreadable", Severity.ERROR, nature,
        f"the code cannot be looked into: {error.message}", record, line=error.line,
        hint="What it does is unknown: do not load the file",
    )  # fmt: skip


def _class_of(node: ast.ClassDef, name: str) -> ClassText:
    bases = {dotted(base) for base in node.bases}
    made = ClassText(name, is_interface=bool(bases & _INTERFACES))
    hooks: list[str] = []
    for line in node.body:
        match line:
            case ast.AnnAssign(ast.Name(slot), annotation, None):
                made.slots[slot] = annotation
            case ast.AnnAssign(ast.Name(slot), annotation, ast.expr() as value):
                made.slots[slot] = annotation
                made.constants[slot] = value
            case ast.Assign([ast.Subscript(_, ast.Constant(str() as slot))], value):
                made.slots[slot] = value
            case ast.Assign([ast.Name(title)], ast.List(names)) if title in _HOOKS:
                hooks += [str(n.value) for n in names if isinstance(n, ast.Constant)]
    made.hooks = tuple(hooks)
    return made


def names_in_type(annotation: ast.expr | None) -> Iterator[str]:
    """The dotted names in a type: ``List[__torch__.A]`` gives ``List`` and the class."""
    pending = [annotation] if annotation is not None else []
    while pending:
        node = pending.pop()
        name = dotted(node)
        if name:
            yield name
        else:
            pending += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
