"""The code of a file that torch.jit.load has read, as text.

torch has no bindings for the members of an enum, nor for an interface that only a parameter has.
Its profiler gives the text that a node comes from, which is a whole record of the file's code.
``bindings`` is ``torch._C``; this file works on what it is given and imports no torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.text_limits import parse_module
from tsarchive.ir.type_parser import type_of_expression
from tsarchive.ir.types import Type

# Without debug records, there is the place in the code alone.
_FILE = re.compile(r'^(?:Serialized )?  File "code/(__torch__.*)\.py", line \d+\n', re.MULTILINE)
_CLASS = r"^class {name}\({base}\):\n(?:  .*\n)*"


def text_behind(bindings: Any, profile: Any, node: Any) -> str:
    """Return the text that a node comes from: the profiler has it for a node that has run."""
    graph = bindings.Graph()
    number = graph.addInput()
    operation = graph.insertNode(graph.create("aten::neg", [number], 1))
    for value in (number, operation.output()):
        value.setType(bindings.IntType.get())
    operation.copyMetadata(node)
    graph.registerOutput(operation.output())
    function = bindings._create_function_from_graph("profiled", graph)
    profile.enable()
    try:
        function(1)
    finally:
        profile.disable()
    texts = (stats.source().text() for stats in profile._dump_stats())
    return next(texts, "")


class CodeTexts:
    """The text of the files of code that nodes below types come from.

    ``text_behind`` gives the text of a node, and ``called`` the graph of a function constant.
    """

    def __init__(
        self,
        bindings: Any,
        roots: Sequence[Any],
        text_behind: Callable[[Any], str],
        called: Callable[[Any], Any],
    ) -> None:
        self._bindings = bindings
        self._text_behind = text_behind
        self._called = called
        self._files = self._read(roots)

    def definition(self, name: str, base: str) -> tuple[str, ast.ClassDef] | None:
        """Return the qualified name and the definition of a class of some ``base``.

        Where ``name`` has no module, a class of any is meant. Files may differ in what they define
        under one name; there is no telling then which is meant. None is returned then, and for
        text that does not parse.
        """
        wanted, _, last = name.rpartition(".")
        pattern = re.compile(_CLASS.format(name=re.escape(last), base=base), re.MULTILINE)
        found = {
            (file.replace("/", "."), match[0])
            for file, text in self._files
            if wanted in ("", file.replace("/", ".")) and (match := pattern.search(text))
        }
        if len(found) != 1:
            return None
        ((module, text),) = found
        try:
            (definition,) = parse_module(text).body
        except SyntaxError:
            return None
        assert isinstance(definition, ast.ClassDef)
        return f"{module}.{last}", definition

    def _read(self, roots: Sequence[Any]) -> list[tuple[str, str]]:
        """Return the files by name, with their texts; those of two archives may share a name."""
        found: dict[tuple[str, str], None] = {}
        for type_ in self._classes(roots):
            nodes: dict[str, Any] = {}
            for node in self._nodes_of(type_):
                if (shown := _FILE.search(node.sourceRange())) is not None:
                    nodes.setdefault(shown[1], node)
            found.update(((file, self._text_behind(node)), None) for file, node in nodes.items())
        return list(found)

    def _classes(self, roots: Sequence[Any]) -> list[Any]:
        """Return the class types that types lead to."""
        types, known = [*roots], dict[str, list[Any]]()
        for type_ in types:  # grows during the loop
            alike = known.setdefault(type_.annotation_str, [])
            if type_ in alike:
                continue
            alike.append(type_)
            types += type_.containedTypes()
            if type_.kind() == "ClassType":
                for node in self._nodes_of(type_):
                    types += (node.outputsAt(n).type() for n in range(node.outputsSize()))
        return [one for alike in known.values() for one in alike if one.kind() == "ClassType"]

    def _nodes_of(self, type_: Any) -> Iterator[Any]:
        """Yield the nodes of the methods of a class, and of the functions that these call."""
        if type_.annotation_str.startswith(NATIVE_PREFIX):
            return
        holder = self._bindings._create_object_with_type(type_)
        for name in type_.method_names():
            yield from self._nodes_in(holder._get_method(name).graph)

    def _nodes_in(self, graph: Any) -> Iterator[Any]:
        graphs = [graph]
        called: list[Any] = []
        for graph in graphs:  # grows during the loop
            blocks = [graph]
            for block in blocks:  # grows during the loop
                for node in block.nodes():
                    yield node
                    blocks += node.blocks()
                    if node.kind() in _WITH_SUBGRAPH:
                        blocks.append(node.g("Subgraph"))
                    elif node.kind() == "prim::Constant" and _is_new(node.output(), called):
                        graphs.append(self._called(node.output()))


def members_of(definition: ast.ClassDef) -> dict[str, Any]:
    """Return the members of an enum by name."""
    found: dict[str, Any] = {}
    for line in definition.body:
        match line:
            case ast.Assign([ast.Name(name)], value):
                found[name] = ast.literal_eval(value)
    return found


def methods_of(
    definition: ast.ClassDef, owner: Type, resolve: Callable[[str], Type]
) -> dict[str, FunctionSchema]:
    """Return the schemas of the methods of the interface ``owner``.

    ``resolve`` gives the types of names.
    """
    found: dict[str, FunctionSchema] = {}
    for method in definition.body:
        match method:
            case ast.FunctionDef(name, returns=ast.expr() as returned):
                arguments = tuple(
                    Argument(each.arg, _annotated(each.annotation, owner, resolve))
                    for each in method.args.args
                )
                result = Argument("", type_of_expression(returned, resolve))
                found[name] = FunctionSchema(name, "", arguments, (result,))
    return found


def _annotated(text: ast.expr | None, owner: Type, resolve: Callable[[str], Type]) -> Type:
    return owner if text is None else type_of_expression(text, resolve)


_WITH_SUBGRAPH = frozenset({"prim::fork", "prim::awaitable"})


def _is_new(value: Any, known: list[Any]) -> bool:
    """Return whether a value is a function whose type is not yet ``known``, and note it."""
    if value.type().kind() != "FunctionType" or value.type() in known:
        return False
    known.append(value.type())
    return True
