"""Importers for code written in a test and for archives, and printing their definitions again."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import tsarchive
from tsarchive.formats.torchscript.importer import Importer
from tsarchive.frontend import CodeImporter
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Block, Node, Value, nested_blocks
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import TENSOR, Type, own_name
from tsarchive.printer.definitions import Definitions
from tsarchive.printer.literals import Literals
from tsarchive.run.operators import find_native, native_class, operator_schemas

RECORD = "code/__torch__.py"
HIGHEST_VERSION = 10


class Table:
    """A constant table that remembers where each value came from."""

    def __init__(self, read) -> None:
        self.read = read
        self.seen: list[tuple[int, Any]] = []

    def constant(self, index: int) -> tuple[Any, Type]:
        value, type_ = self.read(index)
        self.seen.append((index, value))
        return value, type_

    def index(self, value: Any, type_: Type) -> int:
        for position, (index, known) in enumerate(self.seen):
            if known is value or (not isinstance(value, TableConstant) and known == value):
                # A value that is no tensor has an entry for each time it is printed.
                if not isinstance(value, TableConstant):
                    del self.seen[position]
                return index
        raise KeyError(value)


class NumberedTable:
    """The table of :func:`importer_of`, whose tensors are their own positions."""

    def index(self, value: Any, type_: Type) -> int:
        return value.value


def importer_of(files: dict[str, str] | str, *, version: int = HIGHEST_VERSION) -> CodeImporter:
    """An importer of code given as text; ``CONSTANTS.cN`` up to c9 are tensors, here numbers."""

    def constant(index: int) -> tuple[Any, Type]:
        return [(TableConstant(number), TENSOR) for number in range(10)][index]

    return CodeImporter(
        {RECORD: files} if isinstance(files, str) else files,
        operators=operator_schemas,
        constant=constant,
        version=version,
        native_class=native_class,
        evaluate=find_native,
    )


def function_of(text: str, name: str = "f", *, version: int = HIGHEST_VERSION) -> Function:
    """The function or method ``name`` of a record with the text ``text``."""
    owner, _, method = name.rpartition(".")
    importer = importer_of(text, version=version)
    if owner:
        found = importer.find(f"__torch__.{owner}")
        assert isinstance(found, ClassType)
        return found.methods[method]
    found = importer.find(f"__torch__.{name}")
    assert isinstance(found, FunctionType)
    return found.function


def graph_of(text: str, name: str = "f") -> Block:
    """The graph of the function or method ``name`` of a record."""
    return function_of(text, name).graph


def walk(block: Block) -> Iterator[Node]:
    """Every node of a block and of those nested in it, in order; bodies of forks included."""
    for node in block.nodes:
        yield node
        for inner in nested_blocks(node):
            yield from walk(inner)


def kinds(block: Block) -> list[str]:
    """The kinds of all nodes but constants, in order."""
    return [node.kind for node in walk(block) if not node.is_constant]


def described(block: Block) -> list[tuple]:
    """All that a graph has, in order, as plain values: places, names and uses included.

    What two graphs of one archive have differs where the graphs do.
    """
    numbers: dict[Value, int] = {}
    rows: list[tuple] = []

    def value(one: Value) -> tuple:
        uses = [(use.user.kind, use.offset) for use in one.uses]
        return numbers.setdefault(one, len(numbers)), repr(one.type), one.name, uses

    def content(one: Any) -> str:
        return f"constant {id(one.value)}" if isinstance(one, TableConstant) else repr(one)

    def add(node: Node, depth: int) -> None:
        place = node.place and (node.place.record, *node.place[1:])
        attributes = {k: content(v) for k, v in node.attributes.items() if k != "subgraph"}
        rest = (node.upgrader, node.has_effects, node.lost, node.written_arguments, node.writes_all)
        inputs = [value(one)[0] for one in node.inputs]
        outputs = [value(one) for one in node.outputs]
        operator = node.schema and str(node.schema)
        rows.append((depth, node.kind, inputs, outputs, attributes, operator, place, *rest))
        for inner in nested_blocks(node):
            for one in (inner.param_node, *inner.nodes, inner.return_node):
                add(one, depth + 1)

    for node in (block.param_node, *block.nodes, block.return_node):
        add(node, 0)
    return rows


def constant_of(value: Value) -> Any:
    """The Python value of a constant."""
    assert value.node.is_constant
    return value.node.attributes["value"]


def only(block: Block, kind: str) -> Node:
    (node,) = [node for node in walk(block) if node.kind == kind]
    return node


def functions_of(named: Any) -> Iterator[Function]:
    if isinstance(named, FunctionType):
        yield named.function
    elif isinstance(named, ClassType) and not named.is_native:
        yield from named.methods.values()
        yield from named.hooks()


def printed(importer: CodeImporter, record: str, table: Any) -> str:
    """The definitions of one record, printed again in file order."""
    printer = Definitions(Literals(table, own_name), own_name, lambda named: None)
    for name in importer.definitions(record):
        found = importer.find(name)
        assert found is not None
        printer.define(found)
    return str(printer.body)


def reprinted(text: str) -> str:
    """Text of a record after parsing and printing it."""
    return printed(importer_of(text), RECORD, NumberedTable())


_ROOT_OBJECT = b"\x80\x02c__torch__\nM\n)\x81}(ub."
_NO_CONSTANTS = b"\x80\x02)."


def torch_functions_of(text: str, *, version: int = HIGHEST_VERSION) -> dict[str, Any]:
    """The functions that torch makes of a record with a class ``M``, by qualified name."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in (
            ("data.pkl", _ROOT_OBJECT),
            ("constants.pkl", _NO_CONSTANTS),
            (RECORD, text),
            ("version" if version < 6 else ".data/version", f"{version}\n"),
        ):
            archive.writestr(f"archive/{name}", content)
    unit = torch._C.CompilationUnit()
    torch._C.import_ir_module_from_buffer(unit, data.getvalue(), None, {}, False)
    return {function.qualified_name: function for function in unit.get_functions()}


def method_text(parameters: str, body: str) -> str:
    """A record with the class ``M`` and its method ``f``."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return (
        "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
        f"  def f(self: __torch__.M, {parameters}):\n{lines}"
    )


class OpenedArchive:
    """The code of an archive on disk, or ``texts`` in its place, with its constant table."""

    def __init__(
        self,
        path: Path,
        texts: dict[str, str] | None = None,
        *,
        operators: Callable[[str], Sequence[FunctionSchema]] = operator_schemas,
        native_class: Callable[[str], ClassType | None] = native_class,
    ) -> None:
        self.archive = tsarchive.open(path)
        self.version = self.archive.format_version
        self.table = Table(Importer(self.archive.container, None).constant)
        self.code = CodeImporter(
            self.archive.code if texts is None else texts,
            operators=operators,
            constant=self.table.constant,
            version=self.version,
            native_class=native_class,
            evaluate=find_native,
        )

    def records(self) -> dict[str, str]:
        return {name: self.archive.code[name] for name in self.archive.code}

    def functions(self) -> dict[str, Function]:
        """Every function and method that the code records define, by qualified name."""
        return {
            function.qualified_name: function
            for record in self.archive.code
            for name in self.code.definitions(record)
            for function in functions_of(self.code.find(name))
        }


# Kinds that torch makes without an operator call in the text, or that are no operators here.
STRUCTURE = {
    "prim::unchecked_cast", "prim::unchecked_unwrap_optional", "prim::TupleIndex",
    "prim::TupleConstruct", "prim::TupleUnpack", "prim::ListConstruct", "prim::ListUnpack",
    "prim::DictConstruct", "prim::Uninitialized", "prim::tolist", "prim::EnumName",
    "prim::EnumValue", "prim::EnumValue.int", "prim::EnumValue.float", "prim::EnumValue.str",
    "prim::ModuleContainerIndex.list", "prim::ModuleContainerIndex.dict",
}  # fmt: skip
CALLS = ("prim::CallFunction", "prim::CallMethod", "prim::SetAttr", "prim::fork")
# After import, torch rewrites the older form of these calls.
REWRITTEN = {
    f"quantized::{name}": f"quantized::{name}.new"
    for name in ("conv2d", "conv2d_relu", "conv3d", "conv3d_relu")
}


def call_order(block: Block) -> list[str]:
    """The overloads that a graph calls, in the order of its nodes."""
    kinds = [
        node.schema.full_name if node.schema is not None else node.kind
        for node in walk(block)
        if node.schema is not None or node.kind in CALLS
    ]
    return [REWRITTEN.get(kind, kind) for kind in kinds if kind not in STRUCTURE]


def torch_call_order(graph) -> list[str]:
    """The same of a graph that torch made."""
    kinds = [
        node.schema().partition("(")[0] if node.schema() != "(no schema)" else node.kind()
        for node in _torch_nodes(graph)
        if node.schema() != "(no schema)" or node.kind() in CALLS
    ]
    return [REWRITTEN.get(kind, kind) for kind in kinds if kind not in STRUCTURE]


def _torch_nodes(block) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _torch_nodes(inner)
        if node.hasAttribute("Subgraph"):
            yield from _torch_nodes(node.g("Subgraph"))


def calls_of(block: Block) -> Counter:
    """The overloads that a graph calls, how often each."""
    return Counter(call_order(block))


def torch_calls_of(graph) -> Counter:
    """The same of a graph that torch made."""
    return Counter(torch_call_order(graph))
